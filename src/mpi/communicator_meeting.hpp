// SPDX-License-Identifier: Apache-2.0
// Where the members of a communicator other than the world meet.
#pragma once

#include "meeting.hpp"
#include "published_place.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Lies in the memory of a communicator, before the places of its members. So the communicator
/// needs some 400 bytes, and 64 for each member, of which each has a `membership` of 32.
///
/// Members meet as the world's ranks do (meeting.hpp), but at one word of the GPU's memory, because
/// they can be any ranks (member_arrival.hpp). What a member writes before a meeting for others to
/// read has two places, used in turn.
struct communicator_meeting {
  static constexpr bytes max_broadcast = meeting::part_bytes;

  std::uint32_t counters[block_place::call_kinds];  // of each kind of meeting; atomic
  std::uint32_t has_schedules[2];                   // of even and of odd meetings; atomic
  alignas(16) char results[2][max_broadcast + 16];  // the same: data, then their size

  [[nodiscard]] QUARRY_HD published_places places() { return {reinterpret_cast<char*>(this + 1)}; }
  [[nodiscard]] QUARRY_HD static constexpr bytes bytes_for(std::uint32_t size) {
    return sizeof(communicator_meeting) + size * published_place::stride;
  }
};

/// The lanes of the caller's warp that continue together after a meeting: the ranks that are its
/// neighbours both in the world and in the communicator. All of them find the same.
[[nodiscard]] QUARRY_SLOW std::uint32_t lanes_beside(communicator const& shared, std::uint32_t own,
                                                     std::uint32_t world_rank);

/// Whether the members are all ranks of the world.
[[nodiscard]] QUARRY_HD inline bool is_world(membership const& among) {
  return among.shared == &the_world().all;
}

/// Whether the members can meet without messages. All members know the same.
[[nodiscard]] QUARRY_HD inline bool meets(membership const& among) {
  return !spans_processes && (is_world(among) || among.shared->meeting != nullptr);
}

/// The places of members that meet.
[[nodiscard]] QUARRY_HD inline published_places places_of(communicator const& shared) {
  return shared.meeting != nullptr ? shared.meeting->places() : places_of_world();
}

// All members call each of these functions, if they meet.

/// Waits until all members have called it. Ranks of different kinds never meet.
QUARRY_SLOW void meet(rank_state& rank, membership& among, call which);

/// At most how many bytes `broadcast_small` copies. All members know the same.
[[nodiscard]] QUARRY_HD inline bytes best_broadcast(membership const& among) {
  return is_world(among) ? meeting::best_broadcast() : communicator_meeting::max_broadcast;
}

/// Copies `size` bytes, at most `best_broadcast`, of the member `root` to all members. Returns
/// MPI_ERR_TRUNCATE, and has copied `size` bytes, if the root sends more.
QUARRY_SLOW int broadcast_small(rank_state& rank, membership& among, void* data, std::uint32_t size,
                                std::uint32_t root, call which);

/// Reduces `count` numbers of all members of a communicator other than the world, in the order of a
/// binary tree over them. `received` is null if this rank does not get the result.
///
/// Every member reads the numbers of 32 members after a meeting. For each further factor of 32 it
/// reads the results of 32 such groups after another one. So the last meeting gives the result to
/// all.
QUARRY_SLOW void reduce_few(rank_state& rank, membership& among, void const* sent, void* received,
                            int count, MPI_Datatype type, small_reduction how, call which);

}  // namespace quarry::inline QUARRY_ABI::mpi
