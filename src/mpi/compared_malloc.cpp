// SPDX-License-Identifier: Apache-2.0
#include "compared_malloc.hpp"

#include "quarry/device/coalescing/coalescing_ref.hpp"
#include "quarry/simt/platform_malloc.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using compared_ref = coalescing_ref<simt::platform_malloc>;

[[nodiscard]] QUARRY_HD compared_ref compared() {
  return compared_ref{
      static_cast<coalescing_state<simt::platform_malloc>*>(the_world().compared_heap)};
}

}  // namespace

QUARRY_SLOW void* allocate_compared(bytes size, bool is_collective) {
  malloc_kind const kind = the_world().malloc;
  if (kind == malloc_kind::cuda) return simt::platform_malloc::malloc(size);
  if (kind == malloc_kind::cuda_map && is_collective)
    return compared().malloc_static<coalesce::warp, locate_by::map>(size);
  bytes const padded = (size + min_alignment - 1) / min_alignment * min_alignment;
  return padded < size ? nullptr : compared().malloc(padded);
}

QUARRY_SLOW void free_compared(void* memory) {
  if (layout().heap().owns(memory)) return layout().heap().free(memory);  // aligned_alloc
  // Without superblocks an address says nothing about who allocated it.
  if (the_world().malloc == malloc_kind::cuda) {
    simt::platform_malloc::free(memory);
  } else {
    compared().free(memory);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
