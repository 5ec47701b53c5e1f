// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Writes allocations as lines of text, in the format of RMM's log. Tools that read RMM's logs,
/// such as RMM's replay benchmark, can read this log.
///
/// The first line names the columns: Thread (the system's id), Time (local hour, minute, second and
/// microsecond), Action (allocate, allocate failure, free), Pointer, Size in bytes, Stream (its
/// handle, 0 for the default stream). Threads and resources may share a log. Lines are written
/// whole, one after the other.
class QUARRY_API allocation_log {
 public:
  enum class action { allocate, allocate_failure, free };

  /// Appends to `output`, which must outlive the log.
  explicit allocation_log(std::ostream& output);
  /// Creates the file, or truncates it. Throws `resource_failed` if the file cannot be opened.
  explicit allocation_log(std::string const& path);
  ~allocation_log();
  allocation_log(allocation_log const&) = delete;
  allocation_log& operator=(allocation_log const&) = delete;

  /// Writes a line, which may stay in a buffer. Counts a line that cannot be written as lost.
  void write(action event, void const* pointer, bytes size, void const* stream) noexcept;
  /// Flushes all lines to the file or to the target of `output`. Counts lines that cannot be
  /// flushed as lost.
  void flush() noexcept;
  /// The number of lines that are known to be lost. Exact after `flush`, unless a flush failed.
  /// Then all lines since the last successful flush count, because the stream does not tell which
  /// of them arrived.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  void write_line(char const* line, std::size_t length) noexcept;

  std::ofstream* file_ = nullptr;  // owned; null if `output_` is the caller's
  std::ostream& output_;           // Guarded by: mutex_
  mutable std::mutex mutex_;
  std::uint64_t lost_ = 0;       // Guarded by: mutex_
  std::uint64_t unflushed_ = 0;  // Guarded by: mutex_; lines since the last flush
};

}  // namespace quarry::inline QUARRY_ABI
