// SPDX-License-Identifier: Apache-2.0
#include "published_parts.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_HD bytes elements_in(rank_parts const& of_ranks, std::uint32_t size) {
  bytes sum = 0;
  for (std::uint32_t i = 0; i < size; ++i) sum += of_ranks.count_of(i);
  return sum;
}

}  // namespace

QUARRY_SLOW published_parts::published_parts(collective const& of, void const* data,
                                             rank_parts const& of_ranks, MPI_Datatype type,
                                             bool changes)
    : of_{of},
      packed_{of.rank, is_shared_memory(data) && !changes
                           ? 0
                           : elements_in(of_ranks, of.size) * element_size(of.rank, type)},
      arrays_{of.rank, packed_.data() == nullptr && is_shared_memory(of_ranks.counts) &&
                               is_shared_memory(of_ranks.displacements)
                           ? 0
                           : 2 * of.size * sizeof(int)} {
  published_place& own = of.places()[of.own];
  bytes const element = element_size(of.rank, type);
  own.data = static_cast<char const*>(data);
  own.counts = of_ranks.counts;
  own.displacements = of_ranks.displacements;
  own.type = type;
  bool const has_gaps = packed_.data() == nullptr && !is_dense(of.rank, type);
  own.size = has_gaps ? 0 : element;
  if (arrays_.data() != nullptr) copy_arrays(of_ranks);
  if (packed_.data() != nullptr) {
    std::int64_t const extent = element_extent(of.rank, type);
    own.data = packed_.data();
    char* next = packed_.data();
    for (std::uint32_t i = 0; i < of.size; ++i) {
      pack(of.rank, next, static_cast<char const*>(data) + of_ranks.place_of(i) * extent,
           of_ranks.count_of(i), type);
      next += of_ranks.count_of(i) * element;
    }
  }
  of.meet();
}

QUARRY_SLOW void published_parts::copy_arrays(rank_parts const& of_ranks) {
  auto* const counts = reinterpret_cast<int*>(arrays_.data());
  int* const displacements = counts + of_.size;
  copy_bytes(counts, of_ranks.counts, of_.size * sizeof(int));
  if (packed_.data() == nullptr) {
    copy_bytes(displacements, of_ranks.displacements, of_.size * sizeof(int));
  } else {
    int before = 0;
    for (std::uint32_t i = 0; i < of_.size; ++i) {
      displacements[i] = before;
      before += counts[i];
    }
  }
  of_.places()[of_.own].counts = counts;
  of_.places()[of_.own].displacements = displacements;
}

QUARRY_SLOW void published_parts::read(std::uint32_t member, typed_elements const& target,
                                       bytes room) const {
  published_place const& source = of_.places()[member];
  rank_state& owner = state_of(of_.through.at->shared->world_rank(member, of_.rank.rank));
  bool const is_dense_there = source.size != 0;
  bytes const element = is_dense_there ? source.size : element_size(owner, source.type);
  std::int64_t const extent =
      is_dense_there ? static_cast<std::int64_t>(element) : element_extent(owner, source.type);
  char const* const from = source.data + source.displacements[of_.own] * extent;
  bytes const length = static_cast<bytes>(source.counts[of_.own]) * element;
  if (length > room) of_.note(MPI_ERR_TRUNCATE);
  convert_elements(of_.rank,
                   {owner, const_cast<char*>(from), is_dense_there ? MPI_BYTE : source.type},
                   target, length < room ? length : room);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
