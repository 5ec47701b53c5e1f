// SPDX-License-Identifier: Apache-2.0
#include "cuda_operations.hpp"

#include "cuda_calls.hpp"

namespace quarry::cuda {
namespace {

cudaMemLocation location_of(memory_place where) {
  cudaMemLocation result{};
  result.type =
      where.kind == memory_kind::device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
  result.id = where.kind == memory_kind::device ? where.device : 0;
  return result;
}

/// A GPU's own, or the current one.
int device_of(memory_place of) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  return of.kind == memory_kind::device ? of.device : current;
}

}  // namespace

// A plain copy or fill is done when it returns, also from one part of a GPU's memory to another.
void copy(void* to, void const* from, bytes size, memory_place of) {
  on_device const here{device_of(of)};
  check(cudaMemcpy(to, from, size, cudaMemcpyDefault), "cudaMemcpy");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}
void copy(void* to, void const* from, bytes size, cuda_stream on) {
  check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, on), "cudaMemcpyAsync");
}
void fill(void* memory, unsigned char value, bytes size, memory_place of) {
  on_device const here{device_of(of)};
  check(cudaMemset(memory, value, size), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}
void fill(void* memory, unsigned char value, bytes size, cuda_stream on) {
  check(cudaMemsetAsync(memory, value, size, on), "cudaMemsetAsync");
}

void prefetch(void const* memory, bytes size, memory_place where, cuda_stream on) {
  check(cudaMemPrefetchAsync(memory, size, location_of(where), 0, on), "cudaMemPrefetchAsync");
}
void advise(void* memory, bytes size, memory_advice what, memory_place where) {
  cudaMemoryAdvise const advice = what == memory_advice::read_mostly ? cudaMemAdviseSetReadMostly
                                  : what == memory_advice::preferred_here
                                      ? cudaMemAdviseSetPreferredLocation
                                      : cudaMemAdviseSetAccessedBy;
  check(cudaMemAdvise(memory, size, advice, location_of(where)), "cudaMemAdvise");
}

}  // namespace quarry::cuda
