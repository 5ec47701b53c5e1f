// SPDX-License-Identifier: Apache-2.0
// The source of superblocks for coalescing allocators: any heap with `malloc(bytes)` and
// `free(void*)`.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/config.hpp"

#include <concepts>
#include <cstdlib>

namespace quarry::inline QUARRY_ABI {

/// A heap that calls `malloc` and `free` as kernels do. On CUDA they use CUDA's heap, or the heap
/// of `replace_malloc` in a file that includes replace_malloc.cuh. On the CPU they are the C
/// library's functions. Allocations are aligned to 16 bytes.
struct platform_malloc_heap {
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const { return ::malloc(size); }
  QUARRY_HD void free(void* pointer) const { ::free(pointer); }
};

/// A heap that finds the allocation that contains an address, so that a caller can check a pointer
/// before it dereferences it.
template <class Heap>
concept tells_allocations = requires(Heap const& heap, void const* pointer) {
  { heap.allocation_of(pointer) } -> std::same_as<void*>;
};

}  // namespace quarry::inline QUARRY_ABI
