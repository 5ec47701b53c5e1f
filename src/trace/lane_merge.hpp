// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/record_lane.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// Merges the events of lanes by their times. Needs no memory after `reserve`.
class lane_merge {
 public:
  /// A position in a lane.
  struct cursor {
    record_lane* lane;
    std::uint64_t next, end;
    std::uint64_t key;

    [[nodiscard]] event& slot() const { return lane->slots[next % record_lane::capacity]; }
    /// Events with equal ticks: frees come first, since an allocation may reuse the address.
    void set_key() {
      bool const is_free =
          slot().kind == event_kind::deallocate || slot().kind == event_kind::unreserve;
      key = 2 * slot().time + (is_free ? 0 : 1);
    }
  };

  void reserve(std::size_t lanes) { cursors_.reserve(lanes); }
  void clear() { cursors_.clear(); }
  /// Adds the events of a lane until the time `cut`.
  void add(record_lane& lane, std::uint64_t cut) noexcept {
    cursor found{&lane, lane.consumed, lane.published.load_acquire(), 0};
    while (found.end != found.next &&
           lane.slots[(found.end - 1) % record_lane::capacity].time > cut)
      --found.end;
    if (found.end == found.next) return;
    found.set_key();
    cursors_.push_back(found);
  }
  /// Calls `take(event)` in the order of time until only one lane has events left.
  template <class Take>
  void run(Take const& take) noexcept {
    std::sort(cursors_.begin(), cursors_.end(),
              [](cursor const& a, cursor const& b) { return a.key < b.key; });
    while (cursors_.size() > 1) {
      cursor& first = cursors_.front();
      std::uint64_t limit = cursors_[1].key;
      if (cursors_.size() > 2) limit = std::min(limit, cursors_[2].key);
      do {
        take(first.slot());
        if (++first.next == first.end) break;
        first.set_key();
      } while (first.key <= limit);
      if (first.next == first.end) {
        first.lane->consumed = first.end;
        first = cursors_.back();
        cursors_.pop_back();
      }
      sift_down();
    }
  }
  /// The rest of the lane that has events left; null if there is none.
  [[nodiscard]] cursor const* last() const {
    return cursors_.empty() ? nullptr : &cursors_.front();
  }

 private:
  /// Moves the front cursor to its place in the heap.
  void sift_down() noexcept {
    for (std::size_t at = 0;;) {
      std::size_t child = 2 * at + 1;
      if (child >= cursors_.size()) return;
      if (child + 1 < cursors_.size() && cursors_[child + 1].key < cursors_[child].key) ++child;
      if (cursors_[at].key <= cursors_[child].key) return;
      std::swap(cursors_[at], cursors_[child]);
      at = child;
    }
  }

  std::vector<cursor> cursors_;  // in `run`: a heap, the earliest in front
};

}  // namespace quarry::inline QUARRY_ABI::trace
