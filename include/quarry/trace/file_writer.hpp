// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/event.hpp"

#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {

/// Appends events to a trace file (docs/format/trace.md). Writes whole chunks, so after a crash a
/// reader gets all events except those of the last chunk. Not thread-safe (see recorder).
///
/// A regular file has one writer at a time, among all processes: the writer holds the file's lock
/// (`flock`). If the writer's process is killed, children that it forked keep the lock until they
/// end. A file system without such locks does not refuse a second writer.
class QUARRY_API file_writer {
 public:
  /// Creates the file, or truncates it. Throws `bad_argument` for an empty path. Throws
  /// `resource_failed` if the file cannot be created. If another writer has it open, throws
  /// `resource_failed` and does not change the file.
  explicit file_writer(std::string const& path);
  file_writer(file_writer const&) = delete;
  file_writer& operator=(file_writer const&) = delete;
  /// Writes the remaining events. Ignores errors; call `close` to see them.
  ~file_writer();

  /// Adds events whose numbers refer to `names`. Writes the new names. Throws `bad_state` after
  /// `close`. Throws `resource_failed` if the file cannot be written. Then the events of the chunk
  /// that could not be written are lost, and the rest of `events` is not added. `events` counts the
  /// added events. Later calls write again.
  void add(std::span<event const> events, name_tables const& names);
  /// Writes the events that are not yet in the file, and flushes it to the operating system. Throws
  /// `resource_failed`.
  void flush();
  /// Flushes and closes the file. Releases the file's lock, even if a child process has the file
  /// open. Throws `resource_failed` if the remaining events cannot be written; the file is closed
  /// then, too. Later calls of `flush` and `close` do nothing.
  void close();
  /// Closes the file without writing the remaining events, and without releasing the file's lock.
  /// For a process that shares the file with the process that created it, such as the child of a
  /// fork.
  void abandon() noexcept;
  /// The number of events that were added.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// The number of events in chunks that could not be written.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  static constexpr std::size_t events_per_chunk = 8192;

 private:
  struct closer {
    void operator()(std::FILE* file) const;
  };
  struct chunk_state;

  void write_names(name_tables const& names);
  void write_chunk();
  void write(void const* data, std::size_t size);

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  std::unique_ptr<chunk_state> chunk_;
  std::size_t written_names_[4] = {1, 1, 1, 1};  // of each table; entry 0 is never written
  std::uint64_t events_ = 0, lost_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
