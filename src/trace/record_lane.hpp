// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/single_writer.hpp"
#include "quarry/trace/recorder.hpp"

#include <array>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::trace {

/// A direct-mapped cache from the keys that a thread used last to their numbers.
template <class Key, std::size_t Size>
class number_cache {
 public:
  [[nodiscard]] std::uint32_t* find(Key const& key, std::size_t hash) {
    entry& found = entries_[hash % Size];
    return found.number != 0 && found.key == key ? &found.number : nullptr;
  }
  void set(Key const& key, std::size_t hash, std::uint32_t number) {
    entries_[hash % Size] = {key, number};
  }

 private:
  struct entry {
    Key key = {};
    std::uint32_t number = 0;
  };
  std::array<entry, Size> entries_{};
};

/// The buffer of one thread: a ring of events. One writer, the thread; one reader at a time, the
/// thread that holds the recorder's mutex.
///
/// Memory order. The writer stores an event, then `published`, by (W) of single_writer. The reader
/// loads `published` by (S), so it sees the events. It may change them until it stores `consumed`.
/// The writer takes the mutex before it overwrites the events. `has_ended` is stored after the last
/// event, and loaded before `published`, so no event of a lane that is used again is missed.
struct record_lane {
  static constexpr std::size_t capacity = recorder::buffered_events;

  struct place {
    char const* file = nullptr;
    std::uint32_t line = 0, column = 0;
    friend bool operator==(place const&, place const&) = default;
  };

  /// Starts again with another thread. Requires that the lane is empty and has no writer.
  void begin(std::uint32_t number) {
    thread = number;
    call_site = 0;
    streams = {};
    places = {};
    limit = consumed + capacity;
    has_ended = false;
  }

  // Written by the thread
  alignas(64) detail::single_writer<std::uint64_t> published;  // events until now
  std::uint64_t limit = capacity;                              // for `published`
  std::uint32_t thread = 0, call_site = 0;                     // `thread`: constant while in use
  detail::single_writer<bool> has_ended;                       // the thread uses the lane no more
  number_cache<void const*, 8> streams;
  number_cache<place, 32> places;
  // Guarded by: the recorder's mutex, for writing
  alignas(64) detail::single_writer<std::uint64_t> consumed;
  detail::single_writer<bool> is_abandoned;       // the recorder was destroyed
  alignas(64) std::array<event, capacity> slots;  // `time`: ticks, until the event is taken
};
static_assert(sizeof(record_lane) <= recorder::buffer_bytes);

}  // namespace quarry::inline QUARRY_ABI::trace
