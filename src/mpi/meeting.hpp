// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fast_path.hpp"
#include "seat.hpp"
#include "small_reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether the members are all ranks of the world, so that they can meet without messages.
[[nodiscard]] QUARRY_HD inline bool meets(membership const& among) {
  return among.shared == &the_world().all;
}

/// Collective operations of all ranks of the world on small data, without messages. The ranks of a
/// block meet, then the blocks (meeting_place.hpp). A rank that waits long makes progress, so that
/// another rank can still be in a send that this rank must serve.
///
/// Results depend on nothing but the values of the ranks. What a rank reads after a meeting it
/// reads before it arrives at the next one. Data that a rank writes before it arrives has two
/// places, used in turn: others may still read that of the last meeting.
///
/// What is frequent is inline, and the rest is one call at the end: one thread of a GPU runs about
/// one instruction in six cycles, and what lives across a call costs memory, which with all ranks
/// of a GPU is much.
class meeting {
 public:
  static constexpr bytes part_bytes = 64;
  static constexpr bytes result_bytes = part_bytes + 16;  // and the size that a root sends

  /// Waits until all ranks have arrived. Ranks of different kinds never meet.
  QUARRY_FAST static void barrier(call which, std::uint32_t kind, bool is_one_kind) {
    seat const at = own_seat();
    arrival const arrived{at, kind};
    bool represents = false;
    if (!meet_briefly(at, arrived, is_one_kind, represents))
      finish_barrier(which, kind, arrived.number(), represents);
    join_lanes();
  }
  /// `is_one_kind`: all calls from this place in the code have the same `which`.
  QUARRY_FAST static void barrier(call which, bool is_one_kind) {
    barrier(which, static_cast<std::uint32_t>(which), is_one_kind);
  }

  /// Copies `size` bytes, at most `part_bytes`, of the rank `root` to all ranks. Returns an MPI
  /// error code: if the root sends more, only `size` bytes are copied.
  QUARRY_FAST static int broadcast(void* data, std::uint32_t size, std::uint32_t root, call which,
                                   bool is_one_kind) {
    seat const at = own_seat();
    arrival const arrived{at, static_cast<std::uint32_t>(which)};
    if (own_rank() == root) {
      char* const result = result_of(arrived.number());
      copy_small(result, static_cast<char const*>(data), size);
      *reinterpret_cast<std::uint32_t*>(result + part_bytes) = size;
    }
    bool represents = false;
    if (!meet_briefly(at, arrived, is_one_kind, represents))
      return finish_broadcast(data, size, which, arrived.number(), represents);
    return take_result(data, size, arrived.number());
  }

  /// Whether `reduce` can combine such numbers. All ranks know the same.
  [[nodiscard]] QUARRY_FAST static bool can_reduce(small_reduction how) {
    return how.exists() && own_seat().blocks <= block_place::max_ranks;
  }
  /// Combines the number at `own` of each rank, of `size` bytes. Stores the result at `received`,
  /// unless it is null.
  QUARRY_FAST static void reduce(void const* own, void* received, std::uint32_t size,
                                 small_reduction how, call which) {
    seat const at = own_seat();
    arrival const arrived{at, static_cast<std::uint32_t>(which)};
    at.place.slots[block_place::slot(at.own)] = load_number(own, size);
    simt::lane_group const group = arriving_lanes(at, arrived.kind(), true, joins_lanes());
    bool const is_last = arrived.arrive(group);
    if (is_last || !wait_briefly(arrived))
      return finish_reduction(received, size, how, which, arrived.number(), is_last, group);
    if (received != nullptr) store_number(received, at.place.result, size);
  }

  /// Combines the ranks' values. `size` bytes, at most `part_bytes`; every rank gets the result.
  QUARRY_SLOW static void reduce(rank_state& rank, void* data, bytes size, bytes count,
                                 MPI_Datatype type, MPI_Op op, call which);

 private:
  /// How often a rank looks for its block, and a block's leader for the world, before it makes
  /// progress and reports that it waits. On a GPU both are some 15 microseconds.
  static constexpr std::uint32_t block_polls = is_on_host() ? 1 : 512;
  static constexpr std::uint32_t world_polls = is_on_host() ? 1 : 32;

  struct no_work {
    QUARRY_HD void in_block(simt::lane_group) const {}
    QUARRY_HD void in_world(simt::lane_group) const {}
  };

  /// CPU: whether lanes that arrive together arrive as one.
  [[nodiscard]] QUARRY_FAST static bool joins_lanes() {
    return is_on_host() && the_meeting().joins_lanes != 0;
  }
  [[nodiscard]] QUARRY_FAST static bool wait_briefly(arrival const& arrived) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < block_polls; ++i)
      if (arrived.is_published()) return true;
    return false;
  }
  /// Returns whether the meeting is complete. If not, `represents` is whether this rank must go on
  /// for its block.
  [[nodiscard]] QUARRY_FAST static bool meet_briefly(seat const& at, arrival const& arrived,
                                                     bool is_one_kind, bool& represents) {
    simt::lane_group const group = arriving_lanes(at, arrived.kind(), is_one_kind, joins_lanes());
    if (arrived.arrive(group)) {
      bool const is_complete = represent_block(at, arrived, group, no_work{}, world_polls);
      note_activity();
      represents = !is_complete && group.is_leader();
      if (represents) return false;
      if (is_complete) finish_block(at, arrived, group, no_work{});
      note_activity();
    }
    return wait_briefly(arrived);
  }

  [[nodiscard]] QUARRY_FAST static char* result_of(std::uint32_t number) {
    return the_meeting().results + number % 2 * result_bytes;
  }
  QUARRY_FAST static int take_result(void* data, std::uint32_t size, std::uint32_t number) {
    char const* const result = result_of(number);
    auto const sent = *reinterpret_cast<std::uint32_t const*>(result + part_bytes);
    copy_small(static_cast<char*>(data), result, sent < size ? sent : size);
    return sent > size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
  }

  // What is left of operations in which a rank waits long, and of the last group in a reduction.
  QUARRY_SLOW static void finish_barrier(call which, std::uint32_t kind, std::uint32_t number,
                                         bool represents);
  QUARRY_SLOW static int finish_broadcast(void* data, std::uint32_t size, call which,
                                          std::uint32_t number, bool represents);
  QUARRY_SLOW static void finish_reduction(void* received, std::uint32_t size, small_reduction how,
                                           call which, std::uint32_t number, bool is_last,
                                           simt::lane_group group);
};

}  // namespace quarry::inline QUARRY_ABI::mpi
