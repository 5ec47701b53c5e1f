// SPDX-License-Identifier: Apache-2.0
// Other allocators behind malloc, to compare with the world's heap: `quarry-mpirun --malloc`.
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether malloc is served by another allocator than the world's heap.
[[nodiscard]] QUARRY_HD inline bool compares_malloc() {
  return the_world().malloc >= malloc_kind::cuda;
}

/// Allocates by the world's `malloc_kind`. `is_collective`: all ranks call, with one size.
[[nodiscard]] QUARRY_SLOW void* allocate_compared(bytes size, bool is_collective);

QUARRY_SLOW void free_compared(void* memory);

}  // namespace quarry::inline QUARRY_ABI::mpi
