// SPDX-License-Identifier: Apache-2.0
// Reductions of the data that ranks have published, element by element.
#pragma once

#include "extension.hpp"
#include "published_place.hpp"
#include "small_reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reduces the elements of a group of ranks to the result of its first rank. On the first level a
/// group has 32 neighbours, whose operands are what they have published. On the next level the
/// first ranks of 32 such groups are a group, whose operands are their results, and so on.
struct reduction_job {
  static constexpr std::uint32_t radix = 32;

  std::uint32_t first;     // rank of the group
  std::uint32_t distance;  // of its ranks: 1 on the first level
  std::uint32_t ranks;     // at most `radix`
  MPI_Op op;
  small_reduction::number type;
  bytes size;  // of all elements
};

/// Combines element `index` of the group's ranks, in the order of a binary tree over them: the
/// result is that of reductions by messages (reduce_to_first). A rank whose data is too short, in a
/// wrong program, counts as 0.
template <class T>
[[nodiscard]] QUARRY_HD T combine_element(reduction_job const& job, bytes index) {
  constexpr std::uint32_t batch = 8;
  T lower{}, middle{}, value{};  // of 8 and of 16 ranks, until those above them are there
  QUARRY_NO_UNROLL
  for (std::uint32_t begin = 0; begin < job.ranks; begin += batch) {
    std::uint32_t const present = job.ranks - begin < batch ? job.ranks - begin : batch;
    char const* sources[batch];
    T values[batch];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      std::uint32_t const number = begin + (k < present ? k : 0);
      published_place const& place = published_place::of(job.first + number * job.distance);
      sources[k] = job.distance == 1 ? place.data : place.result;
      if ((index + 1) * sizeof(T) > place.size) sources[k] = nullptr;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k)
      values[k] = sources[k] != nullptr ? reinterpret_cast<T const*>(sources[k])[index] : T{};
    QUARRY_UNROLL
    for (std::uint32_t reach = 1; reach < batch; reach *= 2) {
      QUARRY_UNROLL
      for (std::uint32_t i = 0; i < batch; i += 2 * reach)
        if (i + reach < present) values[i] = combine<T>(values[i], values[i + reach], job.op);
    }
    value = values[0];
    if ((begin & 8) != 0) value = combine<T>(lower, value, job.op);
    bool const is_last = begin + batch >= job.ranks;
    if ((begin & 16) != 0 && ((begin & 8) != 0 || is_last))
      value = combine<T>(middle, value, job.op);
    if ((begin & 8) == 0) lower = value;
    if (begin == 8) middle = value;
  }
  return value;
}

/// A lane's share: each `step`-th element.
template <class T>
QUARRY_SLOW void reduce_share_of(reduction_job const& job, lane_share share) {
  published_place const first = published_place::of(job.first);
  auto* const result = reinterpret_cast<T*>(first.result);
  bytes const count = (job.size < first.size ? job.size : first.size) / sizeof(T);
  QUARRY_NO_UNROLL
  for (bytes i = share.first; i < count; i += share.step) result[i] = combine_element<T>(job, i);
}

QUARRY_SLOW inline void run(reduction_job const& job, lane_share share) {
  using number = small_reduction::number;
  switch (job.type) {
    case number::int32:
      return reduce_share_of<std::int32_t>(job, share);
    case number::uint32:
      return reduce_share_of<std::uint32_t>(job, share);
    case number::int64:
      return reduce_share_of<std::int64_t>(job, share);
    case number::uint64:
      return reduce_share_of<std::uint64_t>(job, share);
    case number::real32:
      return reduce_share_of<float>(job, share);
    case number::real64:
      return reduce_share_of<double>(job, share);
    case number::none:
      return;
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
