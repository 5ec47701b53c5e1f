// SPDX-License-Identifier: Apache-2.0
// What collective operations share. Their messages have a context of their own.
#pragma once

#include "collectives.hpp"
#include "communicator_meeting.hpp"
#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The tag of the messages of a collective operation.
[[nodiscard]] QUARRY_HD inline std::int32_t tag_of(std::uint32_t number, call which) {
  static_assert(sizeof(call_names) / sizeof(call_names[0]) <= 64);
  return static_cast<std::int32_t>((number << 6 | static_cast<std::uint32_t>(which)) & 0x3fffffff);
}

/// A collective operation that this rank takes part in. Messages of one operation have its number
/// and its kind as tag, so that they match no receive of another operation. Numbers wrap at 2^24.
/// Bit 30 is that of schedules (scheduled_collective.cpp).
struct collective {
  rank_state& rank;
  channel through;
  std::int32_t tag;
  call which;
  std::uint32_t own;
  std::uint32_t size;
  mutable int error = MPI_SUCCESS;  // of the first receive that failed

  QUARRY_HD collective(rank_state& caller, membership& at, call name)
      : rank{caller},
        through{&at, at.context + 1},
        tag{tag_of(at.collectives++, name)},
        which{name},
        own{at.rank},
        size{at.size} {}

  QUARRY_HD void send(void const* data, bytes length, std::uint32_t to) const {
    send_bytes(rank, through, data, length, static_cast<std::int32_t>(to), tag, which);
  }
  QUARRY_HD void receive(void* data, bytes length, std::uint32_t from) const {
    note(receive_bytes(rank, through, data, length, static_cast<std::int32_t>(from), tag, which));
  }
  /// Waits until all members have called it, if they meet.
  QUARRY_HD void meet() const { mpi::meet(rank, *through.at, which); }
  /// What the members publish between meetings.
  [[nodiscard]] QUARRY_HD published_places places() const { return places_of(*through.at->shared); }
  QUARRY_HD void note(int failed) const {
    if (error == MPI_SUCCESS) error = failed;
  }
  /// What the MPI function returns.
  [[nodiscard]] QUARRY_HD int result(MPI_Comm communicator, char const* function) const {
    return error == MPI_SUCCESS
               ? MPI_SUCCESS
               : fail(rank, communicator, error, function, "rank", static_cast<std::int64_t>(own));
  }
};

/// How many ranks a rank has as children in a binomial tree: rank + 1, rank + 2, rank + 4, ... Its
/// parent has its number without the lowest bit.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t tree_children(std::uint32_t rank,
                                                              std::uint32_t size) {
  std::uint32_t children = 0;
  while ((rank >> children & 1) == 0 && (rank | 1u << children) < size) ++children;
  return children;
}

/// The root waits until all members have called it. Other ranks may return earlier.
QUARRY_SLOW void arrive(collective const& of, std::uint32_t root);

/// Checks what all collectives share, and finds the caller's membership. Returns an MPI error code.
QUARRY_SLOW int check(rank_state& rank, MPI_Comm handle, std::int64_t count, MPI_Datatype type,
                      int root, char const* function, membership*& found);

}  // namespace quarry::inline QUARRY_ABI::mpi
