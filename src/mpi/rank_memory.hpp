// SPDX-License-Identifier: Apache-2.0
// Memory for malloc and its family: the world's heap, with coalesced allocation.
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Ranks of one warp that call malloc together get adjacent memory, with one allocation of the heap
/// (docs/design/coalescing.md). If their sizes have one size class, each gets a slice of its own.
/// Otherwise they share a dynamic superblock, whose memory is free when all of its parts are. A
/// rank that has a warp of its own uses the heap directly. No call waits for a rank that is
/// elsewhere.
///
/// Every result is aligned to 16 bytes, whatever the size. Any rank may free it.

/// Whether each rank has a warp of its own, so that no ranks can call together.
[[nodiscard]] QUARRY_HD inline bool has_own_warp() {
  return std::uint32_t{1} << layout().shift >= 32;
}

/// Returns memory for `size` bytes; null if the heap has none. Size 0 gets memory, too.
[[nodiscard]] QUARRY_SLOW void* allocate_for_program(bytes size);

/// The same for a call that all ranks make, with one size (docs/design/mpi_analysis.md). Ranks of
/// one warp that call together get parts of one superblock («packed» in docs/design/coalescing.md),
/// whose memory is free when all of its parts are.
///
/// Parts lie at the distance that makes accesses fast: lanes that each walk through their own array
/// need few lines of the cache, and their words lie in different banks. Slices are as good only if
/// the distance is a size class. If ranks call alone, they get slices.
[[nodiscard]] QUARRY_SLOW void* allocate_collectively(bytes size);

/// For a call of malloc or one of its family that returns null: sets errno, and notes the call for
/// the launcher's report.
QUARRY_SLOW void note_refusal(bytes size);

/// What a function of malloc's family returns: the memory for `size` bytes, which may be null.
[[nodiscard]] QUARRY_HD inline void* noted(void* memory, bytes size) {
  if (memory == nullptr) note_refusal(size);
  return memory;
}

/// Frees what the functions of this file or the heap have returned. Of an address that is not
/// allocated, it changes nothing, and the launcher reports it at the end.
QUARRY_SLOW void free_for_program(void* memory);

/// Resizes an allocation and keeps the bytes that fit. Returns null, sets errno and changes nothing
/// if there is no memory, or if `memory` is neither null nor allocated, which the launcher reports.
[[nodiscard]] QUARRY_SLOW void* resize_for_program(void* memory, bytes size);

}  // namespace quarry::inline QUARRY_ABI::mpi
