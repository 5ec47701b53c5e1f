// SPDX-License-Identifier: Apache-2.0
// Reads traces in Quarry's own format, and in the formats of PyTorch, RMM and Umpire.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/trace/event.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// A file is no trace, or is damaged. The message names the file, the line or offset, the reason.
class QUARRY_API bad_trace : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// The formats that `open_trace` reads.
enum class format : std::uint8_t {
  quarry,   ///< docs/format/trace.md
  pytorch,  ///< torch.cuda.memory._snapshot(), pickled
  rmm,      ///< the CSV of RMM's logging adaptor, and of allocation_log
  umpire,   ///< JSON lines of Umpire 2022 and later
  text,     ///< lines `a ID BYTES` and `f ID`
};
[[nodiscard]] QUARRY_API char const* name_of(format file_format);

/// Reads the events of one file, in order, a batch at a time. Its memory does not grow with the
/// number of events; only the name tables grow.
///
/// A reader skips what it cannot read, and keeps what it can: `problems` says what it skipped. A
/// file of which nothing can be read is refused.
class QUARRY_API reader {
 public:
  virtual ~reader() = default;
  /// Fills `events` from the front. Returns the number of events; 0 only at the end of the file.
  /// Throws `bad_trace` if the file is no trace of this format, or if it has problems and no event;
  /// and `resource_failed` if it cannot be read.
  [[nodiscard]] virtual std::size_t read(std::span<event> events) = 0;
  [[nodiscard]] virtual format file_format() const = 0;

  /// The names that the events read until now refer to.
  [[nodiscard]] name_tables const& names() const { return names_; }
  /// What was skipped: `FILE:LINE: reason`, or `FILE, offset N: reason`. At most `max_problems`
  /// texts; `problem_count` counts all.
  [[nodiscard]] std::vector<std::string> const& problems() const { return problems_; }
  [[nodiscard]] std::uint64_t problem_count() const { return problem_count_; }

  static constexpr std::size_t max_problems = 100;

 protected:
  void add_problem(std::string_view text) {
    if (problems_.size() < max_problems) problems_.push_back(as_utf8(text));
    ++problem_count_;
  }
  /// Call it at the end of the file. Throws `bad_trace` if there are problems and no event: the
  /// result of such a trace would look like that of a program that allocates nothing.
  void require_events(bool has_events) const;
  name_tables names_;

 private:
  std::vector<std::string> problems_;
  std::uint64_t problem_count_ = 0;
};

/// Opens a trace. Files that gzip compressed are decompressed while they are read. Recognises the
/// format by the first bytes. Throws `resource_failed` if the file cannot be opened, and
/// `bad_trace` if the format is unknown.
[[nodiscard]] QUARRY_API std::unique_ptr<reader> open_trace(std::string const& path);

/// Opens a trace at its first event, for functions that read it several times.
using trace_source = std::function<std::unique_ptr<reader>()>;

}  // namespace quarry::inline QUARRY_ABI::trace
