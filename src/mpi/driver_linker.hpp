// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// Compiles and links texts in PTX for the current GPU, with at most `registers` registers a
/// thread. The GPU's driver has a compiler, so that no CUDA toolkit is needed. A zero byte must
/// follow each text. Returns a cubin. Throws resource_failed with the driver's messages.
[[nodiscard]] std::string link_by_driver(std::vector<std::string_view> const& texts, int registers);

}  // namespace quarry::inline QUARRY_ABI::mpi
