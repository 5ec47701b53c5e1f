// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/event.hpp"

#include <cstdint>
#include <fstream>
#include <ostream>
#include <span>
#include <string>
#include <unordered_map>

namespace quarry::inline QUARRY_ABI::trace {

/// Writes a trace in the format of RMM's log, for example for `REPLAY_BENCH -f FILE` of RMM.
///
/// The format has allocations, failures and frees. Other events are skipped and counted. Call
/// sites, allocators and granted sizes are lost. Times lose their date and fractions of a
/// microsecond.
///
/// Threads and streams become numbers. A name that is a number keeps this number. Any other name
/// becomes 2^63 plus its entry in the table. RMM frees the size in the row of the free, so a free
/// without a size gets the size of the allocation. Memory: proportional to the allocations in use.
/// Not thread-safe.
class QUARRY_API rmm_writer {
 public:
  /// Appends to `output`, which must outlive the writer.
  explicit rmm_writer(std::ostream& output);
  /// Creates the file, or truncates it. Throws `resource_failed` if the file cannot be opened.
  explicit rmm_writer(std::string const& path);
  rmm_writer(rmm_writer const&) = delete;
  rmm_writer& operator=(rmm_writer const&) = delete;

  /// Throws `resource_failed` if the events cannot be written.
  void write(std::span<event const> events, name_tables const& names);
  /// Flushes all rows. Throws `resource_failed` if they cannot be written.
  void flush();

  [[nodiscard]] std::uint64_t written() const { return written_; }
  /// The number of events that the format cannot represent.
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

 private:
  void write_row(event const& written, bytes size, name_tables const& names);
  void write_columns();
  /// Calls `write`. Throws `resource_failed`, with the reason if known, if the stream fails.
  template <class Write>
  void checked(Write const& write);

  std::ofstream file_;
  std::ostream& output_;
  std::string path_;                                // empty if the writer knows only the stream
  std::string rows_;                                // of the current call of `write`
  std::unordered_map<std::uint64_t, bytes> sizes_;  // of allocations in use, by address
  std::uint64_t written_ = 0, skipped_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
