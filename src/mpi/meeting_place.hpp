// SPDX-License-Identifier: Apache-2.0
// Where the ranks of the world meet, and the protocol of their arrival.
#pragma once

#include "block_word.hpp"
#include "calls.hpp"
#include "meeting_orders.hpp"

#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What the ranks of one block share: the first `block_ranks` ranks, the next ones, and so on. On
/// the GPU a block is a thread block, and its place lies in shared memory.
struct block_place {
  /// The most numbers that ranks reduce in meetings.
  static constexpr std::uint32_t max_numbers = 32;
  /// One for each call, one for reductions whose operands lie in the tree (meeting::reduce), and
  /// one for each number of numbers that two calls reduce, from 2 on. So ranks whose counts differ
  /// never meet, and the report of the deadlock shows them.
  static constexpr std::uint32_t call_kinds = sizeof(call_names) / sizeof(call_names[0]);
  static constexpr std::uint32_t tree_kind = call_kinds;
  static constexpr std::uint32_t kinds = tree_kind + 1 + 2 * (max_numbers - 1);
  static constexpr std::uint32_t max_ranks = 1024;

  /// The kind of meetings in which `call::reduce` or `call::allreduce` reduces `numbers` numbers.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t reduction_kind(call which,
                                                                        std::uint32_t numbers) {
    if (numbers < 2) return static_cast<std::uint32_t>(which);
    std::uint32_t const first = tree_kind + 1 + (which == call::reduce ? 0 : max_numbers - 1);
    return first + numbers - 2;
  }

  /// Where value `index` lies in `slots`. Eight values lie together, so that a lane reads them at
  /// once. The gaps behind them spread lanes over the banks of the GPU's shared memory.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t slot(std::uint32_t index) {
    return index + index / 8 * 2;
  }
  /// So many values in whole eights.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t padded(std::uint32_t count) {
    return (count + 7) / 8 * 8;
  }
  /// How many numbers of each of `ranks` ranks, or blocks, the slots have room for. At least 1, for
  /// at most `max_ranks`.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t numbers_of(std::uint32_t ranks) {
    std::uint32_t const numbers = max_ranks / padded(ranks);
    return numbers < max_numbers ? numbers : max_numbers;
  }

  std::uint32_t meetings;         // how many are complete, modulo 2^32; atomic
  std::uint32_t parted_warps;     // GPU: bit w: ranks of warp w must not join (join_lanes); atomic
  std::uint32_t arrived[kinds];   // how many ranks are at the meeting of this kind; atomic
  std::uint64_t expected[kinds];  // of the world's counter when the last such meeting is complete
  std::uint64_t results[max_numbers];  // of a reduction
  // of each rank, or each block: first all their first numbers, then all their second ones, ...
  alignas(16) std::uint64_t slots[max_ranks + max_ranks / 8 * 2];
  alignas(16) std::uint64_t partial[8 * max_numbers + max_numbers * 2];  // of eight slots each
};

/// A rank's place in its block, and what the blocks share.
struct seat {
  block_place& place;
  std::uint64_t* counters;  // of each kind: how many blocks have arrived, ever; atomic
  std::uint32_t block;
  std::uint32_t blocks;
  std::uint32_t members;  // the ranks of this block
  std::uint32_t own;      // this rank's number in the block
  std::uint32_t ranks;    // of each block but the last

  static constexpr std::uint32_t counter_stride = 16;  // each counter has a cache line

  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint64_t> counter(std::uint32_t kind) const {
    return simt::atomic_ref<std::uint64_t>{counters[kind * counter_stride]};
  }
};

/// The lanes of a block that reach this call together for the same kind of meeting. The GPU need
/// not compare kinds if all calls from one place in the code have the same (`is_one_kind`). On the
/// CPU, if `joins` is false, this lane alone: there a group costs more than it saves.
struct arrival_site {};
[[nodiscard]] QUARRY_HD inline simt::lane_group arriving_lanes([[maybe_unused]] seat const& at,
                                                               std::uint32_t kind,
                                                               [[maybe_unused]] bool is_one_kind,
                                                               [[maybe_unused]] bool joins) {
#ifdef __CUDA_ARCH__
  auto const group = simt::lane_group::coalesced<arrival_site>();
  return is_one_kind ? group : group.match(kind);
#else
  if (!joins) return simt::lane_group::alone();
  return simt::lane_group::coalesced<arrival_site>().match(at.block * block_place::kinds + kind);
#endif
}

template <class Group>
QUARRY_HD void sync(Group const& group) {
  if (group.size() > 1) group.sync();
}
/// The leader's value, in all lanes of the group.
[[nodiscard]] QUARRY_HD inline bool share(simt::lane_group group, bool value) {
  return group.size() > 1 ? group.broadcast(value ? 1u : 0u) != 0 : value;
}

/// How ranks of all blocks meet. The lanes that arrive together arrive as one: their leader adds
/// their number to the block's counter (A). The lanes that arrive last in a block represent it:
/// their leader adds 1 to the world's counter (B), waits until it has the arrivals of all blocks
/// (W), and publishes that to its block (P). The other ranks of the block wait for this (V). So
/// only one lane of each block looks at memory of the world.
///
/// A counter is of one kind of operation. So ranks in different operations never complete a
/// meeting.
///
/// Memory order. (A) and (B) are acq_rel RMWs of one counter each: the last to arrive sees what all
/// others wrote before. (W) is an acquire load of the counter of (B), whose RMWs are one release
/// sequence. (V) synchronizes with (P). The block's counter returns to 0 (Z) without an order: (P)
/// follows it, and the next (A) of this counter follows (V). The number of a meeting is that of the
/// complete ones and 1. It is stable from a rank's return out of a meeting until its next arrival,
/// since no meeting is complete without it; so equality suffices, and the number may wrap.
class arrival {
 public:
  QUARRY_HD arrival(seat const& at, std::uint32_t kind)
      : at_{at}, kind_{kind}, number_{meetings().load(simt::relaxed) + 1} {}

  /// A meeting at which the rank has arrived.
  QUARRY_HD arrival(seat const& at, std::uint32_t kind, std::uint32_t number)
      : at_{at}, kind_{kind}, number_{number} {}

  /// The meeting's number, the same in all blocks.
  [[nodiscard]] QUARRY_HD std::uint32_t number() const { return number_; }

  [[nodiscard]] QUARRY_HD std::uint32_t kind() const { return kind_; }

  /// Arrives with the lanes of the group. Returns whether they are the last of the block.
  [[nodiscard]] QUARRY_HD bool arrive(simt::lane_group group) const {
    sync(group);
    bool is_last = false;
    if (group.is_leader()) {
      block_word const arrived{at_.place.arrived[kind_]};
      is_last = arrived.fetch_add(group.size(), block_arrive_order) + group.size() ==  // (A)
                at_.members;
      if (is_last) arrived.store(0, simt::relaxed);  // (Z)
    }
    return share(group, is_last);
  }

  /// The block's leader tells the other blocks. Returns whether the meeting is complete.
  [[nodiscard]] QUARRY_HD bool arrive_at_world() const {
    at_.place.expected[kind_] += at_.blocks;
    return at_.counter(kind_).fetch_add(1, world_arrive_order) + 1 == expected();  // (B)
  }
  /// Whether all blocks have arrived, for the block's leader.
  [[nodiscard]] QUARRY_HD bool is_complete() const {
    return at_.counter(kind_).load(world_wait_order) >= expected();  // (W)
  }
  /// The same without an order: a hint.
  [[nodiscard]] QUARRY_HD bool may_be_complete() const {
    return at_.counter(kind_).load(simt::relaxed) >= expected();
  }
  /// The block's leader lets the block's ranks go on.
  QUARRY_HD void publish() const { meetings().store(number_, publish_order); }  // (P)

  /// The word that becomes the meeting's number when it is complete.
  [[nodiscard]] QUARRY_HD std::uint32_t const* awaited_word() const { return &at_.place.meetings; }

  /// Whether the meeting is complete, for every rank.
  [[nodiscard]] QUARRY_HD bool is_published() const {
    return meetings().load(block_wait_order) == number_;  // (V)
  }

 private:
  [[nodiscard]] QUARRY_HD block_word meetings() const { return block_word{at_.place.meetings}; }
  [[nodiscard]] QUARRY_HD std::uint64_t expected() const { return at_.place.expected[kind_]; }

  seat const& at_;
  std::uint32_t kind_;
  std::uint32_t number_;
};

/// What the last group of a block does for its block, in two steps. `work.in_block(group)` follows
/// the arrival of the block's ranks, `work.in_world(group)` the arrival of all blocks, if there are
/// several. Returns whether all blocks have arrived. The leader looks `polls` times, and its group
/// waits for it meanwhile. If the result is false, only the leader continues: it waits until
/// `arrived.is_complete()` and calls `finish_block` alone.
template <class Work>
[[nodiscard]] QUARRY_HD bool represent_block(seat const& at, arrival const& arrived,
                                             simt::lane_group group, Work const& work,
                                             std::uint32_t polls) {
  work.in_block(group);
  if (at.blocks == 1) return true;
  bool is_complete = false;
  if (group.is_leader()) {
    is_complete = arrived.arrive_at_world();
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; !is_complete && i < polls; ++i) is_complete = arrived.is_complete();
  }
  return share(group, is_complete);
}
template <class Work>
QUARRY_HD void finish_block(seat const& at, arrival const& arrived, simt::lane_group group,
                            Work const& work) {
  if (at.blocks > 1) work.in_world(group);
  if (group.is_leader()) arrived.publish();
}

}  // namespace quarry::inline QUARRY_ABI::mpi
