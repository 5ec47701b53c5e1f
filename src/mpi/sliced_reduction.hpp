// SPDX-License-Identifier: Apache-2.0
// The share of a reduction (reduction_job.hpp) in the form that suits a CPU: a slice of
// neighbouring elements, in chunks that stay in the cache.
#pragma once

#include "reduction_job.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

inline constexpr std::size_t chunk_elements = 128;

template <class T, MPI_Op Op>
void combine_spans(T* to, T const* left, T const* right, std::size_t count, MPI_Op op) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = combine<T>(left[i], right[i], Op != MPI_OP_NULL ? Op : op);
}

/// to[i] = left[i] op right[i]. `to` may be one of the two.
template <class T>
void combine_spans(T* to, T const* left, T const* right, std::size_t count, MPI_Op op) {
  if (op == MPI_SUM) return combine_spans<T, MPI_SUM>(to, left, right, count, op);
  if (op == MPI_MAX) return combine_spans<T, MPI_MAX>(to, left, right, count, op);
  if (op == MPI_MIN) return combine_spans<T, MPI_MIN>(to, left, right, count, op);
  combine_spans<T, MPI_OP_NULL>(to, left, right, count, op);
}

/// Combines `count` elements from `begin` on, in the order of a binary tree over the ranks. Partial
/// result k is of 2^k ranks, as digits of a binary number are.
template <class T>
void reduce_chunk(reduction_job const& job, std::size_t begin, std::size_t count, T* result) {
  T partial[6][chunk_elements];
  static_assert(reduction_job::radix == 1u << 5);
  for (std::uint32_t i = 0; i < job.ranks; ++i) {
    published_place const& place = job.places[job.first + i * job.distance];
    auto const* const source = reinterpret_cast<T const*>(job.source_of(place)) + begin;
    if ((begin + count) * sizeof(T) > place.size) continue;  // a wrong program
    std::uint32_t level = 0;
    while ((i >> level & 1) != 0) ++level;
    T* const into = partial[level];
    if (level == 0) std::memcpy(into, source, count * sizeof(T));
    for (std::uint32_t k = 0; k < level; ++k)
      combine_spans(into, partial[k], k == 0 ? source : into, count, job.op);
  }
  T const* all = nullptr;
  for (std::uint32_t k = 0; k < 6; ++k) {
    if ((job.ranks >> k & 1) == 0) continue;
    if (all != nullptr) combine_spans(partial[k], partial[k], all, count, job.op);
    all = partial[k];
  }
  std::memcpy(result + begin, all, count * sizeof(T));
}

/// A worker's slice.
template <class T>
void reduce_slice_of(reduction_job const& job, std::uint32_t worker, std::uint32_t workers) {
  published_place const& first = job.places[job.first];
  std::size_t const size = (job.size < first.size ? job.size : first.size) / sizeof(T);
  std::size_t const end = size * (worker + 1) / workers;
  for (std::size_t begin = size * worker / workers; begin < end; begin += chunk_elements)
    reduce_chunk<T>(job, begin, end - begin < chunk_elements ? end - begin : chunk_elements,
                    reinterpret_cast<T*>(first.result));
}

inline void reduce_slice(reduction_job const& job, std::uint32_t worker, std::uint32_t workers) {
  using number = small_reduction::number;
  switch (job.type) {
    case number::int32:
      return reduce_slice_of<std::int32_t>(job, worker, workers);
    case number::uint32:
      return reduce_slice_of<std::uint32_t>(job, worker, workers);
    case number::int64:
      return reduce_slice_of<std::int64_t>(job, worker, workers);
    case number::uint64:
      return reduce_slice_of<std::uint64_t>(job, worker, workers);
    case number::real32:
      return reduce_slice_of<float>(job, worker, workers);
    case number::real64:
      return reduce_slice_of<double>(job, worker, workers);
    case number::none:
      return;
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
