// SPDX-License-Identifier: Apache-2.0
// Groups: ordered sets of the world's ranks.
#pragma once

#include "communicator_objects.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Members whose numbers in the world grow or fall by one step.
struct group_run {
  std::uint32_t begin;  // the rank of the first in the group
  std::int32_t world;   // its number in the world
  std::int32_t step;
};

/// A group belongs to one rank. It is a list of runs, so that groups of most ranks of the world and
/// regular groups need little memory: each rank may have one.
struct group {
  std::uint32_t size;
  std::uint32_t runs;
  // `runs` runs follow

  [[nodiscard]] QUARRY_HD group_run* first() { return reinterpret_cast<group_run*>(this + 1); }
  [[nodiscard]] QUARRY_HD std::uint32_t end_of(std::uint32_t run) {
    return run + 1 < runs ? first()[run + 1].begin : size;
  }
  /// The number in the world of the group's rank. Takes log(runs) steps.
  [[nodiscard]] QUARRY_SLOW std::uint32_t world_rank(std::uint32_t rank);
  /// The rank in the group of the world's rank; MPI_UNDEFINED if it is no member. Takes `runs`
  /// steps.
  [[nodiscard]] QUARRY_SLOW int rank_of(std::uint32_t world);
};

#ifdef __CUDACC__
__device__
#endif
inline group empty_group{};  // nobody changes it

/// The group with this handle; null if there is none.
[[nodiscard]] QUARRY_HD inline group* group_of(rank_state& rank, MPI_Group handle) {
  if (handle == MPI_GROUP_EMPTY) return &empty_group;
  auto const index = static_cast<std::uint32_t>(handle - MPI_GROUP_EMPTY - 1);
  return handle > MPI_GROUP_EMPTY && index < rank.groups.capacity ? rank.groups.entries[index]
                                                                  : nullptr;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
