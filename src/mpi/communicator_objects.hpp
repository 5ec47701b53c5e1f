// SPDX-License-Identifier: Apache-2.0
// Making and freeing communicators.
#pragma once

#include "context_numbers.hpp"
#include "handles.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Where MPI_Dist_graph_create has placed a rank: its neighbours' numbers and weights.
struct neighbourhood {
  std::int32_t sources;
  std::int32_t targets;
  std::uint32_t is_weighted;
  // sources, their weights, targets, their weights

  [[nodiscard]] QUARRY_HD int* first() { return reinterpret_cast<int*>(this + 1); }
  [[nodiscard]] QUARRY_HD int* source() { return first(); }
  [[nodiscard]] QUARRY_HD int* source_weights() { return first() + sources; }
  [[nodiscard]] QUARRY_HD int* target() { return first() + 2 * sources; }
  [[nodiscard]] QUARRY_HD int* target_weights() { return first() + 2 * sources + targets; }
};

/// What few memberships need.
struct membership_extra {
  membership own_group;       // of an intercommunicator: this rank among those of its group
  neighbourhood* neighbours;  // MPI_Dist_graph_create; else null
  information* hints;         // MPI_Comm_set_info; else null
  std::uint64_t copies;       // how often this rank has called MPI_Comm_idup
  std::uint32_t is_named;
  char name[MPI_MAX_OBJECT_NAME];
};

/// What the two halves of an intercommunicator share. The last of them to be freed frees it.
struct group_pair {
  immediate_copies* copies = nullptr;  // atomic: MPI_Comm_idup; else null
  std::uint32_t halves = 2;            // that are not freed; atomic
  std::uint32_t keeps_contexts = 0;    // as in a communicator; atomic
};

/// The two halves of an intercommunicator.
struct communicator_halves {
  communicator* own;    // the members of the own group send to the other group
  communicator* other;  // the reverse
};

/// A communicator of so many ranks, with room for `members` of them, for `references` memberships.
/// Null if the heap has no memory, or if `context` is 0. `meets`: its members have a place to meet,
/// if the heap has memory for that. Otherwise their collective operations send messages. The
/// context is free again if there is no memory.
[[nodiscard]] QUARRY_SLOW communicator* new_communicator(std::uint32_t ranks, std::uint32_t members,
                                                         std::uint32_t references,
                                                         std::uint32_t context, bool meets);

/// A new communicator of the same ranks. In programs of several processes each rank has its own
/// copy of a communicator, so that the result is for the caller alone.
[[nodiscard]] QUARRY_SLOW communicator* copy_of(communicator const& old, std::uint32_t context);

/// An intercommunicator between two groups. Each leader is any rank of its group, by its number in
/// the world. The halves are null, and the groups are not changed, if one of the groups is null or
/// if the heap has no memory.
[[nodiscard]] QUARRY_SLOW communicator_halves new_halves(communicator* own,
                                                         std::uint32_t own_leader,
                                                         communicator* other,
                                                         std::uint32_t other_leader);

/// Frees a communicator that no rank has joined, without its local group. It may be null.
QUARRY_SLOW void discard(communicator* made);

/// Gives a reference back. The last frees the memory.
QUARRY_SLOW void drop(communicator* shared);

/// Adds a membership. Other memberships may move. If the heap has no memory, gives the caller's
/// reference back and returns null.
[[nodiscard]] QUARRY_SLOW membership* join(rank_state& rank, communicator* shared,
                                           std::uint32_t own, MPI_Errhandler handler,
                                           MPI_Comm* handle);

/// A copy in the heap; null if that has no memory.
[[nodiscard]] QUARRY_SLOW neighbourhood* copy_of(neighbourhood const& old);

/// The membership's extra; null if it has none.
[[nodiscard]] QUARRY_HD inline membership_extra* extra_of(rank_state& rank, membership const& at) {
  return at.extra == 0 ? nullptr : rank.extras.entries[at.extra - 1];
}
/// The same, which is made if there is none; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW membership_extra* make_extra(rank_state& rank, membership& at);

/// The rank's membership in its own group: `at` itself unless it is an intercommunicator.
[[nodiscard]] QUARRY_HD inline membership& own_group(rank_state& rank, membership& at) {
  return at.shared->local == nullptr ? at : rank.extras.entries[at.extra - 1]->own_group;
}

/// Whether messages go to another group than the sender's.
[[nodiscard]] QUARRY_HD inline bool is_intercommunicator(membership const& at) {
  return at.shared->local != nullptr;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
