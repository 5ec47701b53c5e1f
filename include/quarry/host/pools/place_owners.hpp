// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/plan.hpp"
#include "quarry/host/pools/stream_order.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// For each byte of a plan's range: the stream that freed the byte last, and the event after which
/// other streams may use the byte.
///
/// The borders of all places divide the range into segments. The latest free of a segment consists
/// of a stream and of the number of that free among the frees of the stream. A stream works in
/// order, so one event for each stream covers all its frees up to a number. Invariants: (1) All
/// work that uses a free segment precedes the segment's latest free. (2) When a stream's event is
/// done, all work that precedes the covered frees is done. (3) The order receives only the handle
/// of the current call.
///
/// A stream that uses a segment waits for the event of the stream that freed the segment last.
/// Earlier users of the segment need no events: each stream was ordered after its predecessor when
/// it allocated the segment.
///
/// Frees record the events, because a handle may be invalid later. A program with one stream
/// records no events. Not thread-safe. A free allocates no memory, except for the first free of a
/// stream.
template <stream_order Order>
class place_owners {
 public:
  using stream = typename Order::stream;

  explicit place_owners(plan const& served) {
    for (auto const& each : served.allocations) {
      if (each.offset == not_planned) continue;
      borders_.push_back(each.offset);
      borders_.push_back(each.offset + each.size);
    }
    std::ranges::sort(borders_);
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    frees_.resize(borders_.size());
  }

  /// Orders the later work of `handle` after all work on [offset, offset + size), which must be a
  /// place of the plan. For this the stream waits for the events of the streams that freed the
  /// bytes. Returns false and changes nothing if no event covers one of these frees. Throws what
  /// `identity` throws, and std::bad_alloc. O(segments of the place).
  [[nodiscard]] bool order_behind_frees(Order& order, stream handle, bytes offset, bytes size) {
    std::uint32_t const user = owner_of(order, handle);
    needed_.clear();
    for (std::size_t i = segment_at(offset), end = segment_at(offset + size); i < end; ++i) {
      auto const [owner, number] = frees_[i];
      if (owner == no_owner || (owner == user && user != unknown_owner)) continue;
      if (owner == unknown_owner || number > states_[owner].covered) return false;
      if (std::ranges::find(needed_, owner) == needed_.end()) needed_.push_back(owner);
    }
    for (std::uint32_t const owner : needed_) {
      auto& event = *states_[owner].event;
      if (order.is_done(event)) continue;
      try {
        order.wait(handle, event);
        ++waits_;
      } catch (...) {
        order.finish(event);  // the host waits instead
      }
    }
    return true;
  }
  /// Records that `handle` freed the place [offset, offset + size), in the order of its work. From
  /// the second stream on, also records an event. O(segments of the place).
  void record_free(Order& order, stream handle, bytes offset, bytes size) noexcept {
    std::uint32_t owner = unknown_owner;
    try {
      owner = owner_of(order, handle);
    } catch (...) {  // no memory for a new stream, or no such stream: no stream may use the bytes
    }
    std::uint64_t const number = owner == unknown_owner ? 0 : ++states_[owner].frees;
    for (std::size_t i = segment_at(offset), end = segment_at(offset + size); i < end; ++i)
      frees_[i] = {owner, number};
    if (owner == unknown_owner || states_.size() < 2) return;
    try {
      auto const event = order.record(handle);
      ++events_;
      if (states_[owner].event) order.drop(*states_[owner].event);
      states_[owner].event = event;
      states_[owner].covered = number;
    } catch (...) {  // for example during a capture: only this stream may use the bytes
    }
  }
  /// Waits for all work of all streams. Then every stream may use all free bytes at once. Returns
  /// false and changes nothing if the wait fails.
  bool synchronize_all(Order& order) noexcept {
    if (!order.finish_all()) return false;
    std::ranges::fill(frees_, latest_free{});
    finish_events(order);
    numbers_.clear();
    states_.clear();
    return true;
  }
  /// Waits for the events and destroys them. Afterwards no other stream may use the free bytes.
  void finish_events(Order& order) noexcept {
    for (auto& each : states_) {
      if (!each.event) continue;
      order.finish(*each.event);
      order.drop(*each.event);
      each.event.reset();
      each.covered = 0;
    }
  }

  [[nodiscard]] std::size_t streams() const { return states_.size(); }
  /// The number of recorded events, and of waits of streams.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t waits() const { return waits_; }

 private:
  static constexpr std::uint32_t no_owner = ~std::uint32_t{0};  // the bytes were never used
  static constexpr std::uint32_t unknown_owner = no_owner - 1;  // a stream without a state
  static constexpr std::size_t max_streams = 4096;              // more streams are `unknown_owner`

  struct latest_free {
    std::uint32_t owner = no_owner;
    std::uint64_t number = 0;
  };
  struct stream_state {
    std::uint64_t frees = 0, covered = 0;
    std::optional<typename Order::event> event = {};
  };

  [[nodiscard]] std::size_t segment_at(bytes offset) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(borders_, offset) - borders_.begin());
  }
  [[nodiscard]] std::uint32_t owner_of(Order& order, stream handle) {
    auto const identity = order.identity(handle);
    if (auto const found = numbers_.find(identity); found != numbers_.end()) return found->second;
    if (states_.size() == max_streams) return unknown_owner;
    auto const number = static_cast<std::uint32_t>(states_.size());
    if (needed_.capacity() <= number) needed_.reserve(2 * number + 8);
    numbers_.emplace(identity, number);
    try {
      states_.emplace_back();
    } catch (...) {
      numbers_.erase(identity);
      throw;
    }
    return number;
  }

  std::vector<bytes> borders_;  // sorted; segment i lies between borders i and i + 1
  std::vector<latest_free> frees_;
  std::unordered_map<stream_identity, std::uint32_t, stream_identity::hash> numbers_;
  std::vector<stream_state> states_;
  std::vector<std::uint32_t> needed_;  // the owners whose events the current call needs
  std::uint64_t events_ = 0, waits_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
