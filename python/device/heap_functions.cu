// SPDX-License-Identifier: Apache-2.0
// The in-kernel heap for kernels that are not compiled from C++: functions that kernels of Numba
// and CuPy link (quarry.kernels). `state` and `packed` are the words of a `heap_ref`.
#include "quarry/device/heap_ref.hpp"

#include <cstdint>

namespace {

__device__ quarry::heap_ref heap_of(std::uint64_t state, std::uint64_t packed) {
  std::uint64_t const words[]{state, packed};
  static_assert(sizeof(words) == sizeof(quarry::heap_ref));
  quarry::heap_ref result;
  std::memcpy(&result, words, sizeof(words));
  return result;
}

}  // namespace

extern "C" __device__ void* quarry_heap_malloc(std::uint64_t state, std::uint64_t packed,
                                               std::uint64_t size) {
  return heap_of(state, packed).malloc(size);
}
extern "C" __device__ void quarry_heap_free(std::uint64_t state, std::uint64_t packed,
                                            void* pointer) {
  heap_of(state, packed).free(pointer);
}

// The same in the calling convention of Numba: the result goes through a pointer.
extern "C" __device__ int quarry_numba_malloc(std::uint64_t* result, std::uint64_t state,
                                              std::uint64_t packed, std::uint64_t size) {
  *result = reinterpret_cast<std::uint64_t>(heap_of(state, packed).malloc(size));
  return 0;
}
extern "C" __device__ int quarry_numba_free(std::int32_t* result, std::uint64_t state,
                                            std::uint64_t packed, std::uint64_t address) {
  heap_of(state, packed).free(reinterpret_cast<void*>(address));
  *result = 0;
  return 0;
}
