// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

#include "scratch.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW std::uint32_t group::world_rank(std::uint32_t rank) {
  std::uint32_t low = 0;
  for (std::uint32_t high = runs; high - low > 1;) {
    std::uint32_t const middle = low + (high - low) / 2;
    (first()[middle].begin <= rank ? low : high) = middle;
  }
  group_run const& run = first()[low];
  return static_cast<std::uint32_t>(run.world +
                                    static_cast<std::int32_t>(rank - run.begin) * run.step);
}

QUARRY_SLOW int group::rank_of(std::uint32_t world) {
  for (std::uint32_t i = 0; i < runs; ++i) {
    group_run const& run = first()[i];
    std::int32_t const distance = static_cast<std::int32_t>(world) - run.world;
    if (run.step == 0 ? distance != 0 : distance % run.step != 0) continue;
    std::int32_t const place = run.step == 0 ? 0 : distance / run.step;
    if (place >= 0 && run.begin + static_cast<std::uint32_t>(place) < end_of(i))
      return static_cast<int>(run.begin) + place;
  }
  return MPI_UNDEFINED;
}

namespace {

/// Makes runs of the numbers that it gets, or only counts them if `runs` is null.
class run_maker {
 public:
  QUARRY_HD explicit run_maker(group_run* runs) : runs_{runs} {}

  QUARRY_HD void add(std::uint32_t world_rank) {
    auto const world = static_cast<std::int32_t>(world_rank);
    std::uint32_t const length = size_ - last_.begin;
    if (count_ != 0 && length == 1) {
      last_.step = world - last_.world;
    } else if (count_ == 0 ||
               world != last_.world + static_cast<std::int32_t>(length) * last_.step) {
      last_ = {size_, world, 0};
      ++count_;
    }
    if (runs_ != nullptr) runs_[count_ - 1] = last_;
    ++size_;
  }
  /// All ranks of the world, as the only members.
  QUARRY_HD void add_world(std::uint32_t count) {
    add(0);
    if (count == 1) return;
    add(1);
    size_ = count;
  }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD std::uint32_t count() const { return count_; }

 private:
  group_run* runs_;
  group_run last_{0, 0, 0};
  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
};

/// Makes a group of the numbers in the world that `list` gives to a run_maker, the same both times.
template <class List>
[[nodiscard]] QUARRY_HD int make_group(rank_state& rank, MPI_Group* handle, char const* function,
                                       List const& list) {
  run_maker counted{nullptr};
  list(counted);
  if (counted.size() == 0) {
    *handle = MPI_GROUP_EMPTY;
    return MPI_SUCCESS;
  }
  std::int32_t const index = free_handle(rank.groups);
  void* const memory =
      index < 0 ? nullptr : allocate(sizeof(group) + counted.count() * sizeof(group_run));
  if (memory == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, function, "size", counted.size());
  auto* const made = ::new (memory) group{counted.size(), counted.count()};
  run_maker written{made->first()};
  list(written);
  rank.groups.entries[index] = made;
  *handle = MPI_GROUP_EMPTY + 1 + index;
  return MPI_SUCCESS;
}

/// Calls `act(world_rank)` for each member, in order.
template <class Act>
QUARRY_HD void for_each_member(group& of, Act const& act) {
  for (std::uint32_t i = 0; i < of.runs; ++i) {
    group_run const run = of.first()[i];
    std::uint32_t const count = of.end_of(i) - run.begin;
    for (std::uint32_t k = 0; k < count; ++k)
      act(static_cast<std::uint32_t>(run.world + static_cast<std::int32_t>(k) * run.step));
  }
}

QUARRY_SLOW int unknown_group(rank_state& rank, char const* function, MPI_Group handle) {
  return fail(rank, MPI_COMM_WORLD, MPI_ERR_GROUP, function, "group", handle);
}

/// A set of a group's ranks.
class rank_set {
 public:
  QUARRY_HD rank_set(rank_state& rank, std::uint32_t size)
      : bits_{rank, (bytes{size} + 7) / 8 + 1} {
    for (bytes i = 0; i < (bytes{size} + 7) / 8; ++i) bits_.data()[i] = 0;
  }
  [[nodiscard]] QUARRY_HD bool has(std::uint32_t member) const {
    return (bits_.data()[member / 8] >> member % 8 & 1) != 0;
  }
  /// Returns false if the set had it.
  [[nodiscard]] QUARRY_HD bool add(std::uint32_t member) const {
    if (has(member)) return false;
    bits_.data()[member / 8] = static_cast<char>(bits_.data()[member / 8] | 1 << member % 8);
    return true;
  }

 private:
  scratch bits_;
};

/// The ranks that a call names: a list, or ranges of first, last and step.
class named_ranks {
 public:
  QUARRY_HD named_ranks(int count, int const* ranks) : count_{count}, ranks_{ranks} {}
  QUARRY_HD named_ranks(int count, int (*ranges)[3]) : count_{count}, ranges_{ranges} {}

  /// Calls `act(rank)` for each, until it returns an error.
  template <class Act>
  QUARRY_HD int for_each(Act const& act) const {
    for (int i = 0; i < count_; ++i) {
      if (ranges_ == nullptr) {
        if (int const error = act(std::int64_t{ranks_[i]})) return error;
        continue;
      }
      int const first = ranges_[i][0], last = ranges_[i][1], step = ranges_[i][2];
      if (step == 0) return MPI_ERR_ARG;
      for (std::int64_t k = first; step > 0 ? k <= last : k >= last; k += step)
        if (int const error = act(k)) return error;
    }
    return MPI_SUCCESS;
  }

 private:
  int count_;
  int const* ranks_ = nullptr;
  int (*ranges_)[3] = nullptr;
};

/// MPI_Group_incl, MPI_Group_excl and their forms with ranges.
QUARRY_SLOW int select_members(MPI_Group handle, int count, named_ranks const& named,
                               bool is_excluded, MPI_Group* result, char const* function) {
  rank_state& rank = self();
  group* const from = group_of(rank, handle);
  if (from == nullptr) return unknown_group(rank, function, handle);
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, function, "count", count);
  rank_set const chosen{rank, from->size};
  std::int64_t wrong = 0;
  int const error = named.for_each([&](std::int64_t member) {
    wrong = member;
    bool const is_rank = member >= 0 && member < static_cast<std::int64_t>(from->size);
    return is_rank && chosen.add(static_cast<std::uint32_t>(member)) ? MPI_SUCCESS : MPI_ERR_RANK;
  });
  if (error == MPI_ERR_ARG) return fail(rank, MPI_COMM_WORLD, error, function, "step", 0);
  if (error != MPI_SUCCESS)
    return fail(rank, MPI_COMM_WORLD, error, function,
                "no rank of the group, or named twice:", wrong);
  return make_group(rank, result, function, [&](run_maker& maker) {
    if (is_excluded) {
      std::uint32_t member = 0;
      for_each_member(*from, [&](std::uint32_t world) {
        if (!chosen.has(member++)) maker.add(world);
      });
    } else {
      (void)named.for_each([&](std::int64_t member) {
        maker.add(from->world_rank(static_cast<std::uint32_t>(member)));
        return MPI_SUCCESS;
      });
    }
  });
}

/// MPI_Group_union and its kind: the members of `first` that `keeps` wants, then those of `second`
/// that are not in `first`, if `adds` is true.
template <class Keeps>
QUARRY_HD int combine_groups(MPI_Group first, MPI_Group second, MPI_Group* result, bool adds,
                             char const* function, Keeps const& keeps) {
  rank_state& rank = self();
  group* const left = group_of(rank, first);
  group* const right = group_of(rank, second);
  if (left == nullptr || right == nullptr)
    return unknown_group(rank, function, left == nullptr ? first : second);
  return make_group(rank, result, function, [&](run_maker& maker) {
    for_each_member(*left, [&](std::uint32_t world) {
      if (keeps(*right, world)) maker.add(world);
    });
    if (!adds) return;
    for_each_member(*right, [&](std::uint32_t world) {
      if (left->rank_of(world) == MPI_UNDEFINED) maker.add(world);
    });
  });
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_group(MPI_Comm handle, MPI_Group* result) {
  rank_state& rank = self();
  membership* const at = member(rank, handle);
  if (at == nullptr)
    return fail(rank, handle, MPI_ERR_COMM, "MPI_Comm_group", "communicator", handle);
  communicator const& of = *own_group(rank, *at).shared;
  return make_group(rank, result, "MPI_Comm_group", [&](run_maker& maker) {
    if (of.members == nullptr && of.size > 1) return maker.add_world(of.size);
    for (std::uint32_t i = 0; i < of.size; ++i) maker.add(of.world_rank(i, rank.rank));
  });
}

QUARRY_HD int MPI_Comm_remote_group(MPI_Comm handle, MPI_Group* result) {
  rank_state& rank = self();
  membership* const at = member(rank, handle);
  if (at == nullptr || !is_intercommunicator(*at))
    return fail(rank, handle, MPI_ERR_COMM, "MPI_Comm_remote_group", "communicator", handle);
  communicator const& of = *at->shared;
  return make_group(rank, result, "MPI_Comm_remote_group", [&](run_maker& maker) {
    for (std::uint32_t i = 0; i < of.size; ++i) maker.add(of.members[i]);
  });
}

QUARRY_HD int MPI_Group_size(MPI_Group handle, int* size) {
  rank_state& rank = self();
  group const* const of = group_of(rank, handle);
  if (of == nullptr) return unknown_group(rank, "MPI_Group_size", handle);
  *size = static_cast<int>(of->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Group_rank(MPI_Group handle, int* result) {
  rank_state& rank = self();
  group* const of = group_of(rank, handle);
  if (of == nullptr) return unknown_group(rank, "MPI_Group_rank", handle);
  *result = of->rank_of(rank.rank);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Group_translate_ranks(MPI_Group from, int count, int const* ranks, MPI_Group to,
                                        int* results) {
  char const* const name = "MPI_Group_translate_ranks";
  rank_state& rank = self();
  group* const source = group_of(rank, from);
  group* const target = group_of(rank, to);
  if (source == nullptr || target == nullptr)
    return unknown_group(rank, name, source == nullptr ? from : to);
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "count", count);
  for (int i = 0; i < count; ++i)
    if (ranks[i] != MPI_PROC_NULL && static_cast<std::uint32_t>(ranks[i]) >= source->size)
      return fail(rank, MPI_COMM_WORLD, MPI_ERR_RANK, name, "rank", ranks[i]);
  for (int i = 0; i < count; ++i)
    results[i] = ranks[i] == MPI_PROC_NULL
                     ? MPI_PROC_NULL
                     : target->rank_of(source->world_rank(static_cast<std::uint32_t>(ranks[i])));
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Group_compare(MPI_Group first, MPI_Group second, int* result) {
  rank_state& rank = self();
  group* const left = group_of(rank, first);
  group* const right = group_of(rank, second);
  if (left == nullptr || right == nullptr)
    return unknown_group(rank, "MPI_Group_compare", left == nullptr ? first : second);
  *result = left->size == right->size ? MPI_IDENT : MPI_UNEQUAL;
  for (std::uint32_t i = 0; i < left->size && *result != MPI_UNEQUAL; ++i) {
    std::uint32_t const world = left->world_rank(i);
    if (world == right->world_rank(i)) continue;
    *result = right->rank_of(world) == MPI_UNDEFINED ? MPI_UNEQUAL : MPI_SIMILAR;
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Group_union(MPI_Group first, MPI_Group second, MPI_Group* result) {
  return combine_groups(first, second, result, true, "MPI_Group_union",
                        [](group&, std::uint32_t) { return true; });
}
QUARRY_HD int MPI_Group_intersection(MPI_Group first, MPI_Group second, MPI_Group* result) {
  return combine_groups(
      first, second, result, false, "MPI_Group_intersection",
      [](group& other, std::uint32_t world) { return other.rank_of(world) != MPI_UNDEFINED; });
}
QUARRY_HD int MPI_Group_difference(MPI_Group first, MPI_Group second, MPI_Group* result) {
  return combine_groups(
      first, second, result, false, "MPI_Group_difference",
      [](group& other, std::uint32_t world) { return other.rank_of(world) == MPI_UNDEFINED; });
}

QUARRY_HD int MPI_Group_incl(MPI_Group from, int count, int const* ranks, MPI_Group* result) {
  return select_members(from, count, {count, ranks}, false, result, "MPI_Group_incl");
}
QUARRY_HD int MPI_Group_excl(MPI_Group from, int count, int const* ranks, MPI_Group* result) {
  return select_members(from, count, {count, ranks}, true, result, "MPI_Group_excl");
}
QUARRY_HD int MPI_Group_range_incl(MPI_Group from, int count, int ranges[][3], MPI_Group* result) {
  return select_members(from, count, {count, ranges}, false, result, "MPI_Group_range_incl");
}
QUARRY_HD int MPI_Group_range_excl(MPI_Group from, int count, int ranges[][3], MPI_Group* result) {
  return select_members(from, count, {count, ranges}, true, result, "MPI_Group_range_excl");
}

QUARRY_HD int MPI_Group_free(MPI_Group* handle) {
  rank_state& rank = self();
  group* const freed = group_of(rank, *handle);
  if (freed == nullptr) return unknown_group(rank, "MPI_Group_free", *handle);
  if (freed != &empty_group) {
    free_entry(rank.groups, *handle - MPI_GROUP_EMPTY - 1);
    release(freed);
  }
  *handle = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}

}  // extern "C"
