// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <fstream>
#include <mutex>
#include <ostream>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Allocations as lines of text, in the format of RMM's log: what reads that, RMM's replay
/// benchmark included, reads this.
///
/// The first line names the columns: Thread (the system's number), Time (the hour, minute, second
/// and microsecond, local), Action (allocate, allocate failure, free), Pointer, Size in bytes,
/// Stream (its handle, 0 for the default stream). Threads may share it, and several resources:
/// lines are written whole, one after the other.
class QUARRY_API allocation_log {
 public:
  enum class action { allocate, allocate_failure, free };

  /// Appends to `output`, which outlives the log.
  explicit allocation_log(std::ostream& output);
  /// Writes the file anew. Throws `resource_failed` if it cannot be opened.
  explicit allocation_log(std::string const& path);
  allocation_log(allocation_log const&) = delete;
  allocation_log& operator=(allocation_log const&) = delete;

  /// Writes a line, which may wait in a buffer. What cannot be written is counted.
  void write(action what, void const* pointer, bytes size, void const* stream) noexcept;
  /// Brings all lines to the file or `output`'s target. What cannot be brought there is counted.
  void flush() noexcept;
  /// Lines that were lost, as far as that is known: after `flush` of all. If a flush fails, all
  /// lines since the last one that succeeded count, since nobody says which of these arrived.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  void write_line(char const* line, std::size_t length) noexcept;

  std::ofstream file_;
  std::ostream& output_;  // Guarded by: mutex_
  mutable std::mutex mutex_;
  std::uint64_t lost_ = 0;       // Guarded by: mutex_
  std::uint64_t unflushed_ = 0;  // Guarded by: mutex_; lines since the last flush
};

}  // namespace quarry::inline QUARRY_ABI
