// SPDX-License-Identifier: Apache-2.0
// How a thread finds its buffers.
#pragma once

#include "trace/record_lane.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The lanes that a thread used last. Has no destructor, so it can be used until the thread ends.
struct cached_lane {
  void const* owner;
  std::uint64_t id;
  record_lane* lane;  // null: the thread has ended
  std::uint32_t thread;
};
inline constinit thread_local std::array<cached_lane, 4> cached_lanes{};
inline constinit thread_local bool thread_has_ended = false;

/// All lanes of a thread.
class thread_lanes {
 public:
  struct entry {
    void const* owner;
    std::uint64_t id;
    std::shared_ptr<record_lane> lane;
  };
  thread_lanes() = default;
  thread_lanes(thread_lanes const&) = delete;
  thread_lanes& operator=(thread_lanes const&) = delete;
  ~thread_lanes() {
    thread_has_ended = true;
    for (cached_lane& each : cached_lanes) each.lane = nullptr;
    for (entry const& each : entries_) each.lane->has_ended = true;
  }

  [[nodiscard]] record_lane* find(void const* owner, std::uint64_t id) const {
    for (entry const& each : entries_) {
      if (each.owner == owner && each.id == id) return each.lane.get();
    }
    return nullptr;
  }
  /// Makes room for an entry. Drops the lanes of recorders that were destroyed.
  void reserve() {
    std::erase_if(entries_,
                  [](entry const& each) { return each.lane->is_abandoned.load_acquire(); });
    entries_.reserve(entries_.size() + 1);
  }
  void add(entry added) noexcept { entries_.push_back(std::move(added)); }

 private:
  std::vector<entry> entries_;
};
inline thread_local thread_lanes lanes_of_thread;

}  // namespace quarry::inline QUARRY_ABI::trace
