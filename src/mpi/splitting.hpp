// SPDX-License-Identifier: Apache-2.0
// New communicators of the ranks of old ones.
#pragma once

#include "collective.hpp"
#include "communicator_objects.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// How the leaders of two groups reach each other.
struct bridge {
  rank_state& rank;
  channel through;
  std::int32_t leader;         // the other leader's rank in the channel
  std::uint32_t world_leader;  // and in the world
  std::int32_t tag;
  call which;

  /// The bridge of an operation of an intercommunicator.
  QUARRY_HD bridge(collective const& of, membership const& at)
      : rank{of.rank},
        through{of.through},
        leader{0},
        world_leader{at.shared->members[0]},
        tag{of.tag},
        which{of.which} {}
  QUARRY_HD bridge(rank_state& own, channel const& between, std::int32_t peer, std::int32_t number,
                   call name)
      : rank{own},
        through{between},
        leader{peer},
        world_leader{between.at->shared->world_rank(static_cast<std::uint32_t>(peer), own.rank)},
        tag{number},
        which{name} {}

  /// Both leaders know which of them is the first.
  [[nodiscard]] QUARRY_HD bool is_first() const { return rank.rank < world_leader; }

  /// Gives the other leader a value, and returns that of the other leader.
  template <class Value>
  [[nodiscard]] QUARRY_HD Value exchange(Value const& own) const {
    Value other{};
    send_bytes(rank, through, &own, sizeof(own), leader, tag, which);
    (void)receive_bytes(rank, through, &other, sizeof(other), leader, tag, which);
    return other;
  }
};

/// The first leader makes an intercommunicator between the groups that both leaders give. Returns
/// the caller's half. Null if the heap has no memory; then `local` is freed. It may be null, if the
/// caller has got no memory.
[[nodiscard]] QUARRY_SLOW communicator* join_groups(bridge const& across, communicator* local);

/// Gives the copy of a communicator what the rank has attached to that. Frees the copy if it fails.
/// Returns an MPI error code, which was reported.
QUARRY_SLOW int copy_attached(rank_state& rank, MPI_Comm from, MPI_Comm* copy,
                              char const* function);

/// Gives the copy hints, unless `info` is MPI_INFO_NULL. Frees the copy if that fails. Returns an
/// MPI error code, which was reported.
QUARRY_SLOW int give_info(MPI_Info info, MPI_Comm* copy);

/// Parts the ranks of a communicator, or of both groups of an intercommunicator, by color. Each
/// part has its ranks in the order of `key`, then of their old ranks. `*part` is MPI_COMM_NULL for
/// the color MPI_UNDEFINED. All ranks call it. Returns an MPI error code, which was reported.
QUARRY_SLOW int split(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                      call which, char const* function);

}  // namespace quarry::inline QUARRY_ABI::mpi
