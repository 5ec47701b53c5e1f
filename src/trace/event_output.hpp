// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/trace/event.hpp"
#include "quarry/trace/file_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace quarry::inline QUARRY_ABI::trace {

/// Where the events of a recorder go: a file, or a ring in memory that keeps the last ones.
///
/// Times of the events that are added never decrease. `insert` is for events that arrive late. In a
/// ring it finds their place. Events that are in the file cannot be changed, so `hold_back` keeps
/// the last events out of it. An event that is earlier than the end of the file gets the time of
/// that end. Two other ways were rejected. If the file kept such events in a section of their own,
/// every reader would have to merge, and a reader of a pipe cannot look ahead. If all events waited
/// until every kernel has ended, the memory would have no bound.
///
/// Not thread-safe: the recorder locks. Memory: the ring, or twice the events held back. `add`
/// needs no memory but that of the names; `insert` needs that of the events that it merges.
class event_output {
 public:
  event_output(std::optional<std::string> const& path, std::size_t ring_events) {
    if (path) {
      file_.emplace(*path);
    } else {
      make_ring(ring_events);
    }
  }

  [[nodiscard]] bool has_file() const { return file_.has_value(); }
  /// Whether this process is the child of a fork, and its parent has the file.
  [[nodiscard]] bool is_foreign() const { return file_ && getpid() != process_; }
  [[nodiscard]] bool is_closed() const { return is_closed_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_ + (file_ ? file_->lost() : 0); }

  /// Finds out whether the file belongs to the parent. Call it before each series of `add`.
  void check_process() noexcept { drops_ = is_foreign(); }

  /// Requires at most `max_added` events.
  void add(std::span<event const> events, name_tables const& names) noexcept {
    if (drops_ || is_closed_) {
      lost_ += events.size();
    } else if (!file_) {
      add_to_ring(events);
    } else if (held_limit_ == 0) {
      write(events, names);
    } else {
      if (held_.size() + events.size() > 2 * held_limit_)
        write_oldest(held_.size() - held_limit_, names);
      held_.insert(held_.end(), events.begin(), events.end());  // has room
    }
  }
  static constexpr std::size_t max_added = 512;

  /// Holds at least the last `count` events back from the file. Throws std::bad_alloc.
  void hold_back(std::size_t count) {
    if (!file_ || is_closed_ || count <= held_limit_) return;
    count = std::max(count, max_added);
    held_.reserve(2 * count);
    held_limit_ = count;
  }

  /// Puts events of ascending times among the events that were added before. Changes the times of
  /// those that are too late; returns their number. Throws std::bad_alloc, and changes nothing.
  /// O(n + m) for n events and the m events that are later than the first of them.
  std::size_t insert(std::span<event> events, name_tables const& names) {
    if (drops_ || is_closed_) {
      lost_ += events.size();
      return 0;
    }
    if (events.empty()) return 0;
    std::size_t const later = count_later(std::max(events.front().time, last_written_));
    std::vector<event> merged;
    merged.reserve(later + events.size());
    std::size_t late = 0;
    for (; late < events.size() && events[late].time < last_written_; ++late)
      events[late].time = last_written_;
    remove_last(later, merged);
    merged.insert(merged.end(), events.begin(), events.end());
    std::inplace_merge(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(later),
                       merged.end(),
                       [](event const& a, event const& b) { return a.time < b.time; });
    if (!file_) {
      add_to_ring(merged);
      return late;
    }
    std::span<event const> left{merged};
    if (held_.size() + left.size() > 2 * held_limit_) {
      std::size_t const written = held_.size() + left.size() - held_limit_;
      std::size_t const written_of_held = std::min(written, held_.size());
      write_oldest(written_of_held, names);
      write(left.first(written - written_of_held), names);
      left = left.subspan(written - written_of_held);
    }
    held_.insert(held_.end(), left.begin(), left.end());  // has room
    return late;
  }

  /// Writes the events that are held back.
  void write_held(name_tables const& names) noexcept { write_oldest(held_.size(), names); }
  /// Writes all events to the file, if there is an open one.
  void flush(name_tables const& names) noexcept {
    if (!file_ || is_closed_) return;
    write_held(names);
    keep_failure([&] { file_->flush(); });
  }
  void close(name_tables const& names) noexcept {
    write_held(names);
    is_closed_ = true;
    keep_failure([&] { file_->close(); });
  }
  /// For the child of a fork.
  void abandon() noexcept { file_->abandon(); }

  /// Writes the ring to a file. Throws `resource_failed`.
  void save(std::string const& path, name_tables const& names) const {
    file_writer target{path};
    std::span<event const> const all{ring_};
    if (is_ring_full_) target.add(all.subspan(ring_next_), names);
    target.add(all.first(ring_next_), names);
    target.close();
  }
  /// Throws the first failure since the last throw, if there is one.
  void throw_failure() {
    if (failure_.empty()) return;
    throw resource_failed{std::exchange(failure_, {}), std::to_string(lost()) + " events are lost"};
  }

 private:
  void make_ring(std::size_t events) {
    constexpr bytes most = std::numeric_limits<bytes>::max();
    try {
      ring_.resize(events);
      return;
    } catch (std::bad_alloc const&) {
    } catch (std::length_error const&) {  // more than a vector can have
    }
    throw out_of_memory{"recorder: ring",
                        events > most / sizeof(event) ? most : events * sizeof(event),
                        "set a limit of fewer than " + std::to_string(events) + " events"};
  }
  void add_to_ring(std::span<event const> events) noexcept {
    for (event const& each : events) {
      ring_[ring_next_] = each;
      if (++ring_next_ == ring_.size()) {
        ring_next_ = 0;
        is_ring_full_ = true;
      }
    }
  }
  /// How many of the events that can still move are later than `time`. O(the result).
  [[nodiscard]] std::size_t count_later(std::uint64_t time) const noexcept {
    std::size_t const present = file_ ? held_.size() : is_ring_full_ ? ring_.size() : ring_next_;
    std::size_t count = 0;
    while (count < present && from_end(count).time > time) ++count;
    return count;
  }
  /// The event that was added last, or the one `distance` before it.
  [[nodiscard]] event const& from_end(std::size_t distance) const noexcept {
    if (file_) return held_[held_.size() - 1 - distance];
    return ring_[(ring_next_ + ring_.size() - 1 - distance) % ring_.size()];
  }
  /// Moves the last `count` events to the end of `removed`, which has room. In a full ring, as many
  /// events or more must be added next: until then the ring still counts the removed ones.
  void remove_last(std::size_t count, std::vector<event>& removed) noexcept {
    for (std::size_t distance = count; distance-- > 0;) removed.push_back(from_end(distance));
    if (file_) {
      held_.resize(held_.size() - count);
    } else {
      ring_next_ = (ring_next_ + ring_.size() - count) % ring_.size();
    }
  }
  void write_oldest(std::size_t count, name_tables const& names) noexcept {
    write(std::span<event const>{held_}.first(count), names);
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  void write(std::span<event const> left, name_tables const& names) noexcept {
    if (!left.empty()) last_written_ = left.back().time;
    while (!left.empty()) {
      std::uint64_t const before = file_->events();
      if (keep_failure([&] { file_->add(left, names); })) break;
      // the file counts the events of a chunk as lost; it does not count events without names
      auto const added = static_cast<std::size_t>(file_->events() - before);
      if (added == 0) lost_ += left.size();
      left = added == 0 ? std::span<event const>{} : left.subspan(added);
    }
  }
  /// Whether `call` succeeded.
  template <class Call>
  bool keep_failure(Call const& call) noexcept {
    try {
      call();
      return true;
    } catch (std::exception const& error) {
      try {
        if (failure_.empty()) failure_ = error.what();
      } catch (...) {  // no memory for the text; `lost` still counts the events
      }
      return false;
    }
  }

  pid_t process_ = getpid();
  std::optional<file_writer> file_;
  std::vector<event> held_;  // in the order of time; 2 * held_limit_ at most
  std::size_t held_limit_ = 0;
  std::uint64_t last_written_ = 0;  // the time of the file's last event
  std::vector<event> ring_;
  std::size_t ring_next_ = 0;
  bool is_ring_full_ = false, is_closed_ = false, drops_ = false;
  std::uint64_t lost_ = 0;
  std::string failure_;  // the first since the last throw
};

}  // namespace quarry::inline QUARRY_ABI::trace
