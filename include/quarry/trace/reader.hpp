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

/// Thrown if a file is not a trace, or is damaged. The message names the file, the line or offset,
/// and the reason.
class QUARRY_API bad_trace : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// The formats that `open_trace` reads.
enum class format : std::uint8_t {
  quarry,   ///< docs/format/trace.md
  pytorch,  ///< torch.cuda.memory._snapshot(), pickled
  rmm,      ///< the CSV of RMM's logging adaptor, and of allocation_log
  umpire,   ///< JSON lines of Umpire 2022.10 and later
  text,     ///< lines `a ID BYTES` and `f ID`
};
[[nodiscard]] QUARRY_API char const* name_of(format file_format);

/// Reads the events of one file in order, a batch at a time. Its memory does not grow with the
/// number of events, except for the name tables. A snapshot of PyTorch with several devices is an
/// exception: its events are kept, and merged by their times.
///
/// A reader skips what it cannot read, and `problems` reports each skip. A reader refuses a file
/// from which it can read nothing.
class QUARRY_API reader {
 public:
  virtual ~reader() = default;
  /// Fills `events` from the front. Returns the number of events, which is 0 only at the end of the
  /// file. Throws `bad_trace` if the file is not a trace of this format, or if it has problems and
  /// no event. Throws `resource_failed` if the file cannot be read.
  [[nodiscard]] virtual std::size_t read(std::span<event> events) = 0;
  [[nodiscard]] virtual format file_format() const = 0;

  /// The names of the events that were read.
  [[nodiscard]] name_tables const& names() const { return names_; }
  /// The skipped parts of the file: `FILE:LINE: reason`, or `FILE, offset N: reason`. At most
  /// `max_problems` texts; `problem_count` counts all skips.
  [[nodiscard]] std::vector<std::string> const& problems() const { return problems_; }
  [[nodiscard]] std::uint64_t problem_count() const { return problem_count_; }

  static constexpr std::size_t max_problems = 100;

 protected:
  void add_problem(std::string_view text) {
    if (problems_.size() < max_problems) problems_.push_back(as_utf8(text));
    ++problem_count_;
  }
  /// To be called at the end of the file. Throws `bad_trace` if there are problems and no event.
  /// Otherwise such a trace would look like the trace of a program that allocates nothing.
  void require_events(bool has_events) const;
  name_tables names_;

 private:
  std::vector<std::string> problems_;
  std::uint64_t problem_count_ = 0;
};

/// Opens a trace. Decompresses a gzip file while it reads. Recognises the format by the first
/// bytes. Throws `resource_failed` if the file cannot be opened, and `bad_trace` if the format is
/// unknown.
[[nodiscard]] QUARRY_API std::unique_ptr<reader> open_trace(std::string const& path);

/// Opens a trace at its first event, for functions that read it several times.
using trace_source = std::function<std::unique_ptr<reader>()>;

}  // namespace quarry::inline QUARRY_ABI::trace
