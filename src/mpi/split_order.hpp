// SPDX-License-Identifier: Apache-2.0
// How the members of a communicator sort what each of them wishes, all together.
#pragma once

#include "collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The new communicator that a member wishes: members of one color, in the order of `key`, then of
/// their old ranks.
struct wish {
  std::int32_t color;
  std::int32_t key;
  std::uint32_t rank;  // in the old communicator
};

/// Where a wish stands among those of all members, ordered by color, then key, then rank.
struct wish_order {
  std::uint32_t place;
  std::uint32_t first;  // the place of the first wish of this color
  std::uint32_t end;    // behind the last wish of this color; known to the member at `first`
};

/// The part of the members that have one color. Where others stand than the first of a color, the
/// entry has the color MPI_UNDEFINED.
struct color_part {
  communicator* part;
  communicator* half;  // of the intercommunicator; the first leader writes it for both groups
  std::int32_t color;
};

/// Memory that the members of a communicator share while they split it: the parts by place, and
/// room for the wishes.
///
/// Memory order: members write before a barrier, and others read after it.
class split_table {
 public:
  /// Publishes the caller's wish, and rank 0's table. All members call it. `is_made()` is false if
  /// the heap has no memory.
  QUARRY_SLOW split_table(rank_state& rank, membership& among, call which, wish const& own);
  /// Rank 0 frees the memory. Call `close` before.
  QUARRY_SLOW ~split_table();
  split_table(split_table const&) = delete;

  [[nodiscard]] QUARRY_HD bool is_made() const { return parts_ != nullptr; }
  [[nodiscard]] QUARRY_HD color_part* parts() const { return parts_; }

  /// Sorts. All members call it: n of them together take O(n log^2 n) steps, of which each takes
  /// O(log^2 n). Members meet only a few times.
  [[nodiscard]] QUARRY_SLOW wish_order order() const;

  /// Waits for all members.
  QUARRY_HD void meet() const { barrier(rank_, among_, which_); }

  /// Any member can say that the split has failed, before a meeting. Relaxed (F): `meet` orders the
  /// store before the loads of members that ask after the meeting.
  QUARRY_HD void note_failure() const { failure().store(1, simt::relaxed); }  // (F)
  [[nodiscard]] QUARRY_HD bool has_failed() const {
    return failure().load(simt::relaxed) != 0;  // (F)
  }

 private:
  /// What a member publishes: in its place for meetings, because it is in no other collective.
  struct published {
    wish own;
    std::uint32_t has_failed;  // of rank 0
    color_part* parts;         // of rank 0
  };
  [[nodiscard]] QUARRY_SLOW published& of(std::uint32_t member) const;
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> failure() const {
    return simt::atomic_ref<std::uint32_t>{of(0).has_failed};
  }

  rank_state& rank_;
  membership& among_;
  call which_;
  wish own_;
  color_part* parts_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
