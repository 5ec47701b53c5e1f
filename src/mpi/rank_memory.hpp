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

/// Returns memory for `size` bytes; null if the heap has none. Size 0 gets memory, too.
[[nodiscard]] QUARRY_SLOW void* allocate_for_program(bytes size);

/// The same for a call that all ranks make, with one size (docs/design/mpi_analysis.md). Ranks of
/// one warp get adjacent memory even if they call at different times: the first that calls reserves
/// a part for each other rank of the warp (docs/design/coalescing.md, «reserved»). If the ranks
/// make other calls than the compiler concluded, some memory is reserved in vain until the
/// ranks end.
[[nodiscard]] QUARRY_SLOW void* allocate_collectively(bytes size);

/// Cancels what is reserved for the calling rank, or for a lane without a rank. Must be the last
/// call of these functions in that lane.
QUARRY_SLOW void leave_collective_allocations();

/// Frees what the functions of this file or the heap have returned.
QUARRY_SLOW void free_for_program(void* memory);

/// Resizes an allocation and keeps the bytes that fit. Returns null and changes nothing if there is
/// no memory.
[[nodiscard]] QUARRY_SLOW void* resize_for_program(void* memory, bytes size);

}  // namespace quarry::inline QUARRY_ABI::mpi
