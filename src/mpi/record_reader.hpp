// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "output.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::mpi {

/// The host's end of the output ring: reads the records in the order of their tickets. One thread
/// at a time.
class record_reader {
 public:
  /// `records`: the places of the ring, all zero. `consumed`: how many records were read; ranks
  /// read it.
  record_reader(output_record* records, std::uint32_t* consumed)
      : records_{records}, consumed_{consumed} {}

  /// Calls `write(record)` for each record that follows, at most for as many as the ring has: all
  /// that were there when the call began are among them. Returns whether there was any.
  template <class Write>
  bool read(Write const& write) {
    std::uint32_t const first = next_;
    while (next_ - first < output_ring::places && is_written(next_)) {
      write(std::as_const(place(next_)));
      ++next_;
      if ((next_ - first) % 1024 == 0) publish();
    }
    publish();
    return next_ != first;
  }

  /// For the end, when ranks write no more: also reads the records behind holes. A rank that a
  /// fault, or the end of the process, stops between its ticket and its record leaves a hole.
  /// Returns how many records are missing. Does not let ranks use the places again: the rank of a
  /// hole may still be writing there.
  template <class Write>
  std::uint32_t read_past_holes(Write const& write) {
    std::uint32_t const end = published_ + output_ring::places;
    std::uint32_t missing = 0;
    std::uint32_t hole = 0;  // records that are missing before `next_`
    for (; next_ != end; ++next_) {
      if (!is_written(next_)) {
        ++hole;
        continue;
      }
      missing += hole;
      hole = 0;
      write(std::as_const(place(next_)));
    }
    return missing;
  }

 private:
  [[nodiscard]] output_record& place(std::uint32_t ticket) const {
    return records_[ticket % output_ring::places];
  }
  [[nodiscard]] bool is_written(std::uint32_t ticket) const {
    return std::atomic_ref{place(ticket).ticket}.load(std::memory_order_acquire) == ticket + 1;
  }
  void publish() {
    published_ = next_;
    std::atomic_ref{*consumed_}.store(next_, std::memory_order_release);
  }

  output_record* records_;
  std::uint32_t* consumed_;
  std::uint32_t next_ = 0;
  std::uint32_t published_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
