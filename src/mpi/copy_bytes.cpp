// SPDX-License-Identifier: Apache-2.0
#include "copy_bytes.hpp"

#ifdef __CUDACC__
#include "bulk_copy.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
namespace {

/// Shorter copies are as fast by the thread alone. (On an H100, a message of 1 KiB takes 4% less
/// by the engine in a warp of its own, and 20% more beside ranks of its warp that wait.)
constexpr std::uint32_t least_through_pieces = 2048;

/// Copies from global memory through shared memory: by the engine alone, or by the engine and by
/// the thread. Returns false, and has done nothing, if other ranks have all pieces.
__device__ bool copy_through_pieces(char* to, char const* from, bytes size, bool by_engine) {
  std::uint32_t const most = by_engine ? copy_pool::pieces : 2;
  bytes const useful = size / claimed_pieces::piece_bytes() + 1;
  claimed_pieces pieces{useful < most ? static_cast<std::uint32_t>(useful) : most};
  if (!pieces) return false;
  bytes const head = (0 - reinterpret_cast<std::uint64_t>(from)) % granule_bytes;
  bytes const body = (size - head) / granule_bytes * granule_bytes;
  if (head != 0) copy_by_thread(to, from, head);
  if (by_engine) {
    pieces.copy(to + head, from + head, body);
  } else {
    pieces.copy_by_stores(to + head, from + head, body);
  }
  bytes const done = head + body;
  if (done != size) copy_by_thread(to + done, from + done, size - done);
  return true;
}

/// Looks for free pieces of shared memory before each part that the thread copies.
__device__ __noinline__ void copy_large(char* to, char const* from, bytes size, bool by_engine) {
  constexpr bytes part = 2048;
  while (!copy_through_pieces(to, from, size, by_engine)) {
    if (size < 2 * part) return copy_by_thread(to, from, size);
    copy_by_thread(to, from, part);
    to += part;
    from += part;
    size -= part;
  }
}

}  // namespace
#endif

QUARRY_SLOW void copy_bytes(void* to, void const* from, bytes size) {
#ifdef __CUDA_ARCH__
  if (size >= least_through_pieces && __isGlobal(from) && claimed_pieces::piece_bytes() != 0) {
    auto const difference =
        reinterpret_cast<std::uint64_t>(to) - reinterpret_cast<std::uint64_t>(from);
    bool const by_engine = difference % granule_bytes == 0 && __isGlobal(to);
    // Lanes of a warp that copy together are as fast as the engine, unless they are few.
    auto const lanes = static_cast<std::uint32_t>(__popc(__activemask()));
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
