// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fast_path.hpp"
#include "seat.hpp"
#include "small_reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

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
  static constexpr bytes max_broadcast = 1024;
  /// The numbers of a rank that are reduced in one meeting. `total`: in all meetings of the call.
  struct number_batch {
    std::uint8_t size;  // of a number, in bytes
    std::uint8_t count;
    std::uint8_t total;

    [[nodiscard]] QUARRY_FAST std::uint32_t kind(call which) const {
      return block_place::reduction_kind(which, total);
    }
  };
  /// The root's data lie behind their size, so that one load gets both of a few bytes.
  static constexpr bytes result_head = 16;
  static constexpr bytes result_bytes = result_head + max_broadcast;

  /// What a fast path leaves to `finish_...`, which this rank must call next.
  struct unfinished {
    std::uint32_t number = 0;  // of the meeting
    bool has_arrived = false;
    bool represents = false;  // its block, in the last group
  };

  /// Waits until all ranks have arrived. Ranks of different kinds never meet. Returns false if
  /// something is left. `is_one_kind`: all calls from this place in the code have the same `kind`.
  [[nodiscard]] QUARRY_FAST static bool try_barrier(std::uint32_t kind, bool is_one_kind,
                                                    unfinished& rest) {
    seat const at = own_seat();
    arrival const arrived{at, kind};
    return meet_briefly(at, arrived, is_one_kind, rest);
  }
  QUARRY_SLOW static void finish_barrier(call which, std::uint32_t kind, unfinished rest);

  /// Waits until all ranks have arrived, by both steps.
  QUARRY_SLOW static void barrier(call which, std::uint32_t kind);
  QUARRY_HD static void barrier(call which) { barrier(which, kind_of(which)); }

  /// Copies `size` bytes, at most `part_bytes`, or `best_broadcast` if the address `data` is a
  /// multiple of 8, of the rank `root` to all ranks. Returns false if something is left. `error`:
  /// if the root sends more, only `size` bytes are copied.
  [[nodiscard]] QUARRY_FAST static bool try_broadcast(void* data, std::uint32_t size,
                                                      std::uint32_t root, call which, int& error,
                                                      unfinished& rest) {
    seat const at = own_seat();
    arrival const arrived{at, kind_of(which)};
    if (own_rank() == root) {
      char* const result = result_of(arrived.number());
      copy_part(result + result_head, static_cast<char const*>(data), size);
      *reinterpret_cast<std::uint32_t*>(result) = size;
    }
    if (!meet_briefly(at, arrived, true, rest)) return false;
    error = own_rank() == root ? MPI_SUCCESS : take_result(data, size, arrived.number());
    return true;
  }
  /// `data` is null on the root, whose buffer may be constant.
  QUARRY_SLOW static int finish_broadcast(void* data, std::uint32_t size, call which,
                                          unfinished rest);
  /// Whether meetings are fast for more than a few words: not for few ranks on several GPUs, which
  /// read what ranks of the other GPUs have written. All ranks know the same.
  [[nodiscard]] QUARRY_FAST static bool are_fast_for_many() {
    return layout().heaps == nullptr || layout().size >= 8192;
  }
  /// At most so many bytes take less time in a meeting than by broadcast_directly. All ranks know
  /// the same. Where 32 ranks share a warp, broadcast_directly copies with all lanes. Lanes of
  /// another GPU than the root's wait longer for each load.
  [[nodiscard]] QUARRY_FAST static bytes best_broadcast() {
    if (is_on_host()) return max_broadcast;
    if (layout().shift == 0) return part_bytes;
    return are_fast_for_many() ? max_broadcast : 384;
  }
  /// The same for at most `max_broadcast` bytes.
  QUARRY_SLOW static int broadcast(void* data, std::uint32_t size, std::uint32_t root, call which);

  /// Whether `try_reduce` can combine such numbers. All ranks know the same.
  [[nodiscard]] QUARRY_FAST static bool can_reduce(small_reduction how) {
    return how.exists() && own_seat().blocks <= block_place::max_ranks;
  }
  /// How many numbers can meet at once.
  [[nodiscard]] QUARRY_FAST static std::uint32_t numbers_at_once() {
    seat const at = own_seat();
    return block_place::numbers_of(at.blocks == 1 ? at.members : at.ranks);
  }
  /// Combines the numbers at `own` of all ranks. Stores the results at `received`, unless it is
  /// null. Returns false if something is left. `is_one_kind`: as in `try_barrier`.
  [[nodiscard]] QUARRY_FAST static bool try_reduce(void const* own, void* received,
                                                   number_batch numbers, call which,
                                                   bool is_one_kind, simt::lane_group& group,
                                                   unfinished& rest) {
    seat const at = own_seat();
    arrival const arrived{at, numbers.kind(which)};
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < numbers.count; ++i)
      at.place.slots[block_place::slot(i * block_place::padded(at.members) + at.own)] =
          load_number(static_cast<char const*>(own) + i * numbers.size, numbers.size);
    group = arriving_lanes(at, arrived.kind(), is_one_kind, joins_lanes());
    rest = {arrived.number(), true, arrived.arrive(group)};
    if (rest.represents || !wait_briefly(arrived)) return false;
    take_numbers(at, received, numbers);
    return true;
  }
  QUARRY_SLOW static void finish_reduce(void* received, number_batch numbers, small_reduction how,
                                        call which, simt::lane_group group, unfinished rest);

  /// Combines the ranks' values. `size` bytes, at most `part_bytes`; every rank gets the result.
  QUARRY_SLOW static void reduce(rank_state& rank, void* data, bytes size, bytes count,
                                 MPI_Datatype type, MPI_Op op, call which);

 private:
  /// CPU: says that something has happened for which the ranks of the block may wait.
  QUARRY_FAST static void note_published([[maybe_unused]] seat const& at) {
#ifndef __CUDA_ARCH__
    note_activity();
    std::uint32_t const first = own_rank() - at.own;
    for (std::uint32_t i = 0; i < at.members; ++i) simt::wake(first + i);
#endif
  }
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
  /// For lanes that represent a block, after their block has gone on: whether the program was
  /// aborted. Ranks whose waits are short look at nothing else that says so. Looks only at each
  /// 256th meeting, because the flag lies in the GPU's memory: reading it takes half as long as a
  /// barrier. The slow path looks again and ends the rank. Then the next meeting is never complete,
  /// and every other rank ends in its wait.
  [[nodiscard]] QUARRY_FAST static bool sees_abort(arrival const& arrived) {
    return arrived.number() % 256 == 0 && is_aborted();
  }
  /// Returns whether the meeting is complete.
  [[nodiscard]] QUARRY_FAST static bool meet_briefly(seat const& at, arrival const& arrived,
                                                     bool is_one_kind, unfinished& rest) {
    simt::lane_group const group = arriving_lanes(at, arrived.kind(), is_one_kind, joins_lanes());
    rest = {arrived.number(), true, false};
    if (arrived.arrive(group)) {
      bool const is_complete = represent_block(at, arrived, group, no_work{}, world_polls);
      note_activity();
      rest.represents = !is_complete && group.is_leader();
      if (rest.represents) return false;
      if (is_complete) finish_block(at, arrived, group, no_work{});
      note_published(at);
      if (sees_abort(arrived)) return false;
    }
    return wait_briefly(arrived);
  }

  [[nodiscard]] QUARRY_FAST static std::uint32_t kind_of(call which) {
    return static_cast<std::uint32_t>(which);
  }
  [[nodiscard]] QUARRY_FAST static char* result_of(std::uint32_t number) {
    return the_meeting().results + number % 2 * result_bytes;
  }
  QUARRY_FAST static void copy_part(char* to, char const* from, std::uint32_t size) {
    if (size <= part_bytes) return copy_small(to, from, size);
    copy_long_words(to, from, size);
  }
  QUARRY_FAST static void take_numbers(seat const& at, void* received, number_batch numbers) {
    if (received == nullptr) return;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < numbers.count; ++i)
      store_number(static_cast<char*>(received) + i * numbers.size, at.place.results[i],
                   numbers.size);
  }
  QUARRY_FAST static int take_result(void* data, std::uint32_t size, std::uint32_t number) {
    char const* const result = result_of(number);
    auto const sent = *reinterpret_cast<std::uint32_t const*>(result);
    copy_part(static_cast<char*>(data), result + result_head, sent < size ? sent : size);
    return sent > size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
  }

  QUARRY_SLOW static void finish_late_reduce(void* received, number_batch numbers,
                                             small_reduction how, call which, unfinished rest);
};

}  // namespace quarry::inline QUARRY_ABI::mpi
