// SPDX-License-Identifier: Apache-2.0
#include "quarry/version.hpp"

namespace quarry::inline QUARRY_ABI {

version_number library_version() noexcept { return version; }

}  // namespace quarry::inline QUARRY_ABI
