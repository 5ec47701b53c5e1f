// SPDX-License-Identifier: Apache-2.0
// Reductions of the data that ranks have published, element by element.
#pragma once

#include "extension.hpp"
#include "published_place.hpp"
#include "small_reduction.hpp"
#include "ways.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reduces the elements of a group of ranks to the result of its first rank. On the first level a
/// group has 32 neighbours, whose operands are what they have published. On the next level the
/// first ranks of 32 such groups are a group, whose operands are their results, and so on.
struct reduction_job {
  static constexpr std::uint32_t radix = 32;

  published_places places;
  std::uint32_t first;     // rank of the group
  std::uint32_t distance;  // of its ranks: 1 on the first level
  std::uint32_t ranks;     // at most `radix`
  MPI_Op op;
  small_reduction::number type;
  bytes size;  // of all elements

  [[nodiscard]] QUARRY_HD char const* source_of(published_place const& place) const {
    return distance == 1 ? place.data : place.result;
  }
};

/// Reduces the published elements of at most 2^30 ranks to the result of rank 0. `of_all` says what
/// all levels have in common. On each level this rank calls `reduce(job, worker, workers)`, as one
/// of the workers of its group of ranks, and then `meet()`, in which all ranks meet.
template <class Reduce, class Meet>
QUARRY_FAST void reduce_in_levels(reduction_job const& of_all, std::uint32_t own,
                                  std::uint32_t size, Reduce const& reduce, Meet const& meet) {
  std::uint32_t distance = 1;
  QUARRY_NO_UNROLL
  do {
    std::uint32_t const span = distance * reduction_job::radix;
    std::uint32_t const first = own & ~(span - 1);
    std::uint32_t const workers = size - first < span ? size - first : span;
    reduction_job job = of_all;
    job.first = first;
    job.distance = distance;
    job.ranks = (workers + distance - 1) / distance;
    // otherwise the result of the only rank is that of the group
    if (job.ranks > 1 || distance == 1) reduce(job, own - first, workers);
    meet();
    distance = span;
  } while (distance < size);
}

/// Neighbouring elements that a lane loads together.
template <class T, std::uint32_t Width>
struct alignas(Width * sizeof(T)) element_pack {
  T values[Width];

  [[nodiscard]] QUARRY_HD static element_pack combined(element_pack const& left,
                                                       element_pack const& right, MPI_Op op) {
    element_pack result;
    QUARRY_UNROLL
    for (std::uint32_t i = 0; i < Width; ++i)
      result.values[i] = combine<T>(left.values[i], right.values[i], op);
    return result;
  }
};

/// So many values are loaded together.
inline constexpr std::uint32_t tree_batch = 8;

/// Combines the values of `count` ranks, at most 32, in the order of a binary tree over them: the
/// result is that of reductions by messages (reduce_to_first). `load(begin, present, values)` loads
/// those from `begin` on, of which `present` exist.
template <class Value, class Load, class Combine>
[[nodiscard]] QUARRY_HD Value combine_in_tree(std::uint32_t count, Load const& load,
                                              Combine const& combined) {
  Value lower{}, middle{}, value{};  // of 8 and of 16 ranks, until those above them are there
  QUARRY_NO_UNROLL
  for (std::uint32_t begin = 0; begin < count; begin += tree_batch) {
    std::uint32_t const present = count - begin < tree_batch ? count - begin : tree_batch;
    Value values[tree_batch];
    load(begin, present, values);
    QUARRY_UNROLL
    for (std::uint32_t reach = 1; reach < tree_batch; reach *= 2) {
      QUARRY_UNROLL
      for (std::uint32_t i = 0; i < tree_batch; i += 2 * reach)
        if (i + reach < present) values[i] = combined(values[i], values[i + reach]);
    }
    value = values[0];
    if ((begin & 8) != 0) value = combined(lower, value);
    bool const is_last = begin + tree_batch >= count;
    if ((begin & 16) != 0 && ((begin & 8) != 0 || is_last)) value = combined(middle, value);
    if ((begin & 8) == 0) lower = value;
    if (begin == 8) middle = value;
  }
  return value;
}

/// Combines pack `index` of the group's ranks. A rank whose data is too short, in a wrong program,
/// counts as 0.
template <class Pack>
[[nodiscard]] QUARRY_HD Pack combine_pack(reduction_job const& job, bytes index) {
  auto const load = [&](std::uint32_t begin, std::uint32_t present, Pack(&values)[tree_batch]) {
    Pack const* sources[tree_batch];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < tree_batch; ++k) {
      std::uint32_t const number = begin + (k < present ? k : 0);
      published_place const& place = job.places[job.first + number * job.distance];
      sources[k] = reinterpret_cast<Pack const*>(job.source_of(place));
      if ((index + 1) * sizeof(Pack) > place.size) sources[k] = nullptr;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < tree_batch; ++k)
      values[k] = sources[k] != nullptr ? sources[k][index] : Pack{};
  };
  return combine_in_tree<Pack>(job.ranks, load, [&](Pack const& left, Pack const& right) {
    return Pack::combined(left, right, job.op);
  });
}

/// Whether all ranks of the group have their elements at multiples of 16 bytes.
[[nodiscard]] QUARRY_SLOW inline bool are_aligned(reduction_job const& job) {
  constexpr std::uint32_t batch = 16;
  std::uint32_t bits = 0;
  QUARRY_NO_UNROLL
  for (std::uint32_t begin = 0; begin < job.ranks; begin += batch) {
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      std::uint32_t const number = begin + k < job.ranks ? begin + k : begin;
      bits |= unit_bits(job.source_of(job.places[job.first + number * job.distance]));
    }
  }
  return bits == 0;
}

/// A lane's share of the packs from `begin` to `end`: each `step`-th.
template <class Pack>
QUARRY_SLOW void reduce_packs(reduction_job const& job, bytes begin, bytes end, lane_share share) {
  auto* const result = reinterpret_cast<Pack*>(job.places[job.first].result);
  QUARRY_NO_UNROLL
  for (bytes i = begin + share.first; i < end; i += share.step)
    result[i] = combine_pack<Pack>(job, i);
}

/// A lane's share. Lanes take packs of 16 bytes if each lane gets some.
template <class T>
QUARRY_SLOW void reduce_share_of(reduction_job const& job, lane_share share) {
  constexpr std::uint32_t width = 16 / sizeof(T);
  published_place const& first = job.places[job.first];
  bytes const size = job.size < first.size ? job.size : first.size;
  bytes packs = size / 16;
  if (packs < share.step || unit_bits(first.result) != 0 || !are_aligned(job)) packs = 0;
  reduce_packs<element_pack<T, width>>(job, 0, packs, share);
  reduce_packs<element_pack<T, 1>>(job, packs * width, size / sizeof(T), share);
}

/// Calls `reduce` with a value of the type.
template <class Reduce>
QUARRY_HD void call_for_type(small_reduction::number type, Reduce const& reduce) {
  using number = small_reduction::number;
  switch (type) {
    case number::int32:
      return reduce(std::int32_t{});
    case number::uint32:
      return reduce(std::uint32_t{});
    case number::int64:
      return reduce(std::int64_t{});
    case number::uint64:
      return reduce(std::uint64_t{});
    case number::real32:
      return reduce(float{});
    case number::real64:
      return reduce(double{});
    case number::none:
      return;
  }
}

QUARRY_SLOW inline void run(reduction_job const& job, lane_share share) {
  call_for_type(job.type, [&](auto number) { reduce_share_of<decltype(number)>(job, share); });
}

/// Reductions of few elements, by teams of eight lanes. Each lane of a team combines an element of
/// four ranks, and then the lanes combine their results. If one lane combines all 32 values, a
/// level of a reduction takes about twice as long.
///
/// `Group`: the lanes of a worker, with `rank()`, `size()`, and `of_rank(value, rank)`, which all
/// lanes call together, and which returns the value of the lane with that rank.
template <class Group>
class team_reduction {
 public:
  QUARRY_HD team_reduction(reduction_job const& job, Group const& group, lane_share worker)
      : job_{job}, group_{group}, worker_{worker}, teams_{group.size() / lanes} {}

  /// Whether it is faster than `run`. All workers of a group of ranks know the same.
  [[nodiscard]] QUARRY_HD bool suits() const {
    constexpr bytes most_for_team = 40;  // five elements of 8 bytes, one after another
    return teams_ != 0 && job_.size <= most_for_team * worker_.step * teams_;
  }
  QUARRY_HD void run() const {
    call_for_type(job_.type, [&](auto number) { reduce<decltype(number)>(); });
  }

 private:
  static constexpr std::uint32_t lanes = 8, ranks_each = reduction_job::radix / lanes;

  template <class T>
  QUARRY_HD void reduce() const {
    published_place const& first = job_.places[job_.first];
    bytes const size = job_.size < first.size ? job_.size : first.size;
    auto* const result = reinterpret_cast<T*>(first.result);
    auto const elements = static_cast<std::uint32_t>(size / sizeof(T));
    std::uint32_t const team = group_.rank() / lanes;
    QUARRY_NO_UNROLL
    for (std::uint32_t begin = worker_.first * teams_; begin < elements;
         begin += worker_.step * teams_) {
      std::uint32_t const index = begin + team;
      bool const has_element = team < teams_ && index < elements;
      T const all = combine_lanes(has_element ? combine_own<T>(index) : T{});
      if (has_element && group_.rank() % lanes == 0) result[index] = all;
    }
  }

  /// The element of the ranks of this lane. A rank whose data is too short counts as 0.
  template <class T>
  [[nodiscard]] QUARRY_HD T combine_own(std::uint32_t index) const {
    std::uint32_t const begin = group_.rank() % lanes * ranks_each;
    T const* sources[ranks_each];
    T values[ranks_each];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < ranks_each; ++k) {
      std::uint32_t const number = begin + k < job_.ranks ? begin + k : 0;
      published_place const& place = job_.places[job_.first + number * job_.distance];
      bool const has_element = begin + k < job_.ranks && (index + 1) * sizeof(T) <= place.size;
      sources[k] = has_element ? reinterpret_cast<T const*>(job_.source_of(place)) : nullptr;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < ranks_each; ++k)
      values[k] = sources[k] != nullptr ? sources[k][index] : T{};
    QUARRY_UNROLL
    for (std::uint32_t reach = 1; reach < ranks_each; reach *= 2) {
      QUARRY_UNROLL
      for (std::uint32_t i = 0; i < ranks_each; i += 2 * reach)
        if (begin + i + reach < job_.ranks)
          values[i] = combine<T>(values[i], values[i + reach], job_.op);
    }
    return values[0];
  }

  /// The first lane of a team gets what its lanes have, in the order of a binary tree.
  template <class T>
  [[nodiscard]] QUARRY_HD T combine_lanes(T value) const {
    std::uint32_t const own = group_.rank(), lane = own % lanes;
    QUARRY_UNROLL
    for (std::uint32_t reach = 1; reach < lanes; reach *= 2) {
      T const other = group_.of_rank(value, own + reach < group_.size() ? own + reach : own);
      bool const is_wanted = lane % (2 * reach) == 0 && (lane + reach) * ranks_each < job_.ranks;
      if (is_wanted) value = combine<T>(value, other, job_.op);
    }
    return value;
  }

  reduction_job job_;
  Group group_;
  lane_share worker_;  // this worker among those of the group of ranks
  std::uint32_t teams_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
