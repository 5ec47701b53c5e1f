// SPDX-License-Identifier: Apache-2.0
#include "host/cuda_operations.hpp"

#include "platform/cuda_calls.hpp"

#include <optional>

namespace quarry::inline QUARRY_ABI::cuda {
namespace {

cudaMemLocation location_of(memory_location place) {
  cudaMemLocation result{};
  result.type =
      place.kind == memory_kind::device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
  result.id = place.kind == memory_kind::device ? place.device : 0;
  return result;
}

/// The GPU of device memory, else the current GPU.
int device_of(memory_location location) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  return location.kind == memory_kind::device ? location.device : current;
}

/// Whether the stream is a default stream. Each GPU has one; the handle means the current GPU's.
bool is_default(cuda_stream stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

/// The driver's value of advice that `is_drivers`.
cudaMemoryAdvise advice_of(memory_advice advice) {
  switch (advice) {
    case memory_advice::read_mostly:
      return cudaMemAdviseSetReadMostly;
    case memory_advice::not_read_mostly:
      return cudaMemAdviseUnsetReadMostly;
    case memory_advice::preferred_here:
      return cudaMemAdviseSetPreferredLocation;
    case memory_advice::no_preferred_place:
      return cudaMemAdviseUnsetPreferredLocation;
    case memory_advice::accessed_by:
      return cudaMemAdviseSetAccessedBy;
    case memory_advice::not_accessed_by:
      return cudaMemAdviseUnsetAccessedBy;
    default:
      throw bad_argument{"advise: this advice does not fit managed memory; see memory_advice"};
  }
}

}  // namespace

// A copy or fill without a stream is complete when the call returns, also within a GPU's memory.
void copy(void* target, void const* source, bytes size, memory_location location) {
  device_guard const guard{device_of(location)};
  check(cudaMemcpy(target, source, size, cudaMemcpyDefault), "cudaMemcpy");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}
void copy(void* target, void const* source, bytes size, cuda_stream stream) {
  check(cudaMemcpyAsync(target, source, size, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}
void fill(void* memory, unsigned char value, bytes size, memory_location location) {
  device_guard const guard{device_of(location)};
  check(cudaMemset(memory, value, size), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}
void fill(void* memory, unsigned char value, bytes size, cuda_stream stream) {
  check(cudaMemsetAsync(memory, value, size, stream), "cudaMemsetAsync");
}

void prefetch(void const* memory, bytes size, memory_location target, cuda_stream stream) {
  std::optional<device_guard> guard;
  if (is_default(stream)) guard.emplace(device_of(target));
  check(cudaMemPrefetchAsync(memory, size, location_of(target), 0, stream), "cudaMemPrefetchAsync");
}
void advise(void* memory, bytes size, memory_advice advice, memory_location place) {
  check(cudaMemAdvise(memory, size, advice_of(advice), location_of(place)), "cudaMemAdvise");
}

}  // namespace quarry::inline QUARRY_ABI::cuda
