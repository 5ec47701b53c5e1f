// SPDX-License-Identifier: Apache-2.0
#include "copy_bytes.hpp"

#ifdef __CUDACC__
#include "copiers.cuh"
#include "warp_helpers.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
namespace {

/// Shorter copies are as fast by the thread alone. (On an H100, a message of 1 KiB takes 4% less
/// by the engine in a warp of its own, and 20% more beside ranks of its warp that wait.)
constexpr std::uint32_t least_through_pieces = 2048;

/// Whether the rank's helpers copy faster than the thread. If the addresses have no words in
/// common, they do not, because they do not shift.
[[nodiscard]] __device__ bool suits_helpers(char const* to, char const* from) {
  return warp_helpers::exist() && __isGlobal(to) && (unit_bits(to) | unit_bits(from)) % 4 == 0;
}

/// Looks for free pieces of shared memory before each part that the helpers or the thread copy.
__device__ __noinline__ void copy_large(char* to, char const* from, bytes size, bool by_engine) {
  bool const has_helpers = suits_helpers(to, from);
  bytes const part = has_helpers ? 32 * 1024 : 2048;
  while (claimed_pieces::piece_bytes() == 0 || !copy_through_pieces(to, from, size, by_engine)) {
    bytes const next = size < 2 * part ? size : part;
    if (has_helpers) {
      warp_helpers::run(copy_job{to, from, next});
    } else {
      copy_by_thread(to, from, next);
    }
    if (next == size) return;
    to += part;
    from += part;
    size -= part;
  }
}

}  // namespace
#endif

QUARRY_SLOW void copy_bytes(void* to, void const* from, bytes size) {
#ifdef __CUDA_ARCH__
  if (size >= least_through_pieces && __isGlobal(from) &&
      (claimed_pieces::piece_bytes() != 0 ||
       suits_helpers(static_cast<char*>(to), static_cast<char const*>(from)))) {
    auto const difference =
        reinterpret_cast<std::uint64_t>(to) - reinterpret_cast<std::uint64_t>(from);
    bool const by_engine = difference % granule_bytes == 0 && __isGlobal(to);
    // Lanes of a warp that copy together are as fast as the engine, unless they are few.
    auto const lanes = static_cast<std::uint32_t>(__popc(__activemask()));
    if (size >= copiers::least && by_engine && copiers::exist() &&
        copiers::copy(static_cast<char*>(to), static_cast<char const*>(from), size))
      return;
    if (size >= bytes{least_through_pieces} * lanes * lanes)
      return copy_large(static_cast<char*>(to), static_cast<char const*>(from), size, by_engine);
  }
  copy_by_thread(to, from, size);
#else
  if (size != 0) std::memcpy(to, from, size);
#endif
}

QUARRY_SLOW void move_bytes(void* to, void const* from, bytes size) {
#ifdef __CUDA_ARCH__
  auto const distance = reinterpret_cast<std::uint64_t>(to) - reinterpret_cast<std::uint64_t>(from);
  if (distance >= size && 0 - distance >= size) return copy_bytes(to, from, size);
  move_by_thread(to, from, size);
#else
  if (size != 0) std::memmove(to, from, size);
#endif
}

QUARRY_SLOW void fill_bytes(void* to, unsigned char value, bytes size) {
#ifdef __CUDA_ARCH__
  fill_by_thread(to, value, size);
#else
  if (size != 0) std::memset(to, value, size);
#endif
}

}  // namespace quarry::inline QUARRY_ABI::mpi
