// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
namespace {

/// Copies as many units as fit, eight at a time, so that their loads are in flight together.
template <class Unit>
__device__ void copy_units(char*& to, char const*& from, bytes& size) {
  auto* __restrict__ out = reinterpret_cast<Unit*>(to);
  auto const* __restrict__ in = reinterpret_cast<Unit const*>(from);
  bytes const units = size / sizeof(Unit);
  bytes i = 0;
  QUARRY_NO_UNROLL
  for (; i + 8 <= units; i += 8) {
    Unit loaded[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) loaded[k] = in[i + k];
#pragma unroll
    for (int k = 0; k < 8; ++k) out[i + k] = loaded[k];
  }
  QUARRY_NO_UNROLL
  for (; i < units; ++i) out[i] = in[i];
  to += units * sizeof(Unit);
  from += units * sizeof(Unit);
  size -= units * sizeof(Unit);
}

}  // namespace
#endif

QUARRY_SLOW void copy_bytes(void* to, void const* from, bytes size) {
#ifdef __CUDA_ARCH__
  auto* out = static_cast<char*>(to);
  auto const* in = static_cast<char const*>(from);
  auto const either = reinterpret_cast<std::uint64_t>(out) | reinterpret_cast<std::uint64_t>(in);
  if (either % 16 == 0) copy_units<uint4>(out, in, size);
  if (either % 4 == 0) copy_units<std::uint32_t>(out, in, size);
  copy_units<char>(out, in, size);
#else
  if (size != 0) std::memcpy(to, from, size);
#endif
}

namespace {

/// The runs of a type that is not dense.
struct type_runs {
  QUARRY_HD type_runs(rank_state& rank, MPI_Datatype type) : extent{element_extent(rank, type)} {
    if (!is_basic(type)) {
      derived_type* const made = derived(rank, type);
      first = made->first();
      count = made->runs;
    } else if (type == MPI_SHORT_INT) {
      pair[0] = {0, 2};
      pair[1] = {4, 4};
      count = 2;
    } else {
      pair[0] = {0, 12};  // 8 bytes and an int
      count = 1;
    }
  }
  [[nodiscard]] QUARRY_HD type_run at(std::uint32_t index) const {
    return first != nullptr ? first[index] : pair[index];
  }

  std::int64_t extent;
  type_run const* first = nullptr;  // null: `pair`
  type_run pair[2];
  std::uint32_t count;
};

/// Calls `move(offset, bytes)` for each run of each element, until `size` bytes are moved.
template <class Move>
QUARRY_HD void for_each_run(type_runs const& runs, bytes size, Move const& move) {
  for (std::int64_t element = 0; size != 0; element += runs.extent) {
    for (std::uint32_t i = 0; i < runs.count && size != 0; ++i) {
      type_run const run = runs.at(i);
      bytes const part = run.size < size ? run.size : size;
      move(element + run.offset, part);
      size -= part;
    }
  }
}

}  // namespace

QUARRY_SLOW void copy_elements(rank_state& rank, void* to, void const* from, bytes count,
                               MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  for_each_run(type_runs{rank, type}, size, [&](std::int64_t offset, bytes part) {
    copy_bytes(static_cast<char*>(to) + offset, static_cast<char const*>(from) + offset, part);
  });
}

QUARRY_SLOW void pack(rank_state& rank, char* to, void const* from, bytes count,
                      MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  for_each_run(type_runs{rank, type}, size, [&](std::int64_t offset, bytes part) {
    copy_bytes(to, static_cast<char const*>(from) + offset, part);
    to += part;
  });
}

QUARRY_SLOW void unpack(rank_state& rank, void* to, MPI_Datatype type, char const* from,
                        bytes size) {
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  for_each_run(type_runs{rank, type}, size, [&](std::int64_t offset, bytes part) {
    copy_bytes(static_cast<char*>(to) + offset, from, part);
    from += part;
  });
}

}  // namespace quarry::inline QUARRY_ABI::mpi
