// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::opencl {

/// What an OpenCL heap holds.
struct heap_usage {
  bytes usable = 0;     ///< of all pages
  bytes reserved = 0;   ///< by spans and large allocations
  bytes allocated = 0;  ///< by allocations, rounded up to their slots and pages
  std::uint64_t allocations_in_use = 0;
};

}  // namespace quarry::inline QUARRY_ABI::opencl
