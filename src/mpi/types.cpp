// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void copy_bytes(void* to, void const* from, bytes size) {
#ifdef __CUDA_ARCH__
  auto* out = static_cast<char*>(to);
  auto const* in = static_cast<char const*>(from);
  auto const either = reinterpret_cast<std::uint64_t>(out) | reinterpret_cast<std::uint64_t>(in);
  struct alignas(16) quad {
    std::uint64_t words[2];
  };
  if (either % 16 == 0) {
    QUARRY_UNROLL_4
    for (; size >= 16; size -= 16, out += 16, in += 16)
      *reinterpret_cast<quad*>(out) = *reinterpret_cast<quad const*>(in);
  }
  if (either % 4 == 0) {
    QUARRY_UNROLL_4
    for (; size >= 4; size -= 4, out += 4, in += 4)
      *reinterpret_cast<std::uint32_t*>(out) = *reinterpret_cast<std::uint32_t const*>(in);
  }
  QUARRY_UNROLL_4
  for (; size != 0; --size) *out++ = *in++;
#else
  std::memcpy(to, from, size);
#endif
}

namespace {

/// Calls `move(buffer, bytes)` for each run of each element, until `size` bytes are moved.
template <class Move>
QUARRY_HD void for_each_run(derived_type& type, char* buffer, bytes size, Move const& move) {
  for (; size != 0; buffer += type.extent) {
    for (std::uint32_t i = 0; i < type.runs && size != 0; ++i) {
      derived_type::run const run = type.first()[i];
      bytes const part = run.size < size ? run.size : size;
      move(buffer + run.offset, part);
      size -= part;
    }
  }
}

}  // namespace

QUARRY_SLOW void pack(rank_state& rank, char* to, void const* from, bytes count,
                      MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  for_each_run(*derived(rank, type), const_cast<char*>(static_cast<char const*>(from)), size,
               [&](char* buffer, bytes part) {
                 copy_bytes(to, buffer, part);
                 to += part;
               });
}

QUARRY_SLOW void unpack(rank_state& rank, void* to, MPI_Datatype type, char const* from,
                        bytes size) {
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  for_each_run(*derived(rank, type), static_cast<char*>(to), size, [&](char* buffer, bytes part) {
    copy_bytes(buffer, from, part);
    from += part;
  });
}

}  // namespace quarry::inline QUARRY_ABI::mpi
