// SPDX-License-Identifier: Apache-2.0
// Private arrays of ranks that allocate together, with interleaved elements.
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Larger arrays stay contiguous: a rank that keeps its array keeps those of 32 ranks.
inline constexpr bytes max_interleaved = bytes{1} << 20;

/// An array of a rank. Element i begins `distance * i` bytes after `first`.
struct rank_array {
  void* first = nullptr;
  bytes distance = 0;
};

/// Returns an array of `size` bytes with elements of `width` bytes, which is 1, 2, 4, 8 or 16.
/// Ranks of one warp that call together with one size share a superblock of rows, as lane_array
/// has it; row i has the elements i of all of them. A rank that calls alone or has a warp of its
/// own gets a contiguous array. So does each rank if the heap has no room for all of them, or if
/// quarry-mpirun compares allocators. `first` is null if there is no memory. Never waits for a rank
/// that is elsewhere.
[[nodiscard]] QUARRY_SLOW rank_array allocate_rank_array(bytes size, std::uint32_t width);

/// Frees an array. Ranks that share a superblock may free in any order; the last one frees it.
QUARRY_SLOW void free_rank_array(void* first, bytes distance, std::uint32_t width);

}  // namespace quarry::inline QUARRY_ABI::mpi
