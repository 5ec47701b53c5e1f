// SPDX-License-Identifier: Apache-2.0
// Writes traces of MPI programs (docs/format/mpi_trace.md).
#pragma once

#include "clock_offsets.hpp"
#include "launcher.hpp"
#include "trace.hpp"

#include <functional>
#include <mutex>

namespace quarry::inline QUARRY_ABI::mpi {

/// How many records of each rank the user's options allow.
[[nodiscard]] std::uint32_t trace_limit(launch_options const& asked);

/// Throws bad_argument if the program was compiled without --trace, or the file cannot be written.
void check_trace(launch_options const& asked, std::vector<std::string> const& functions);

/// The GPUs of a program; none on the CPU.
struct traced_gpus {
  std::vector<std::uint32_t> first_ranks;
  gpu_clocks clocks;
};

/// Where the launcher finds a program's trace, which it writes once.
class trace_writer {
 public:
  /// `read` copies records `[first, first + count)` of the trace's memory, from a GPU's memory if
  /// the program runs there.
  using record_reader =
      std::function<void(trace_record*, std::uint64_t first, std::uint64_t count)>;
  using rank_reader = std::function<std::vector<rank_trace>()>;

  /// The file has times of the first GPU's clock, if `gpus` knows the offsets.
  trace_writer(launch_options const& asked, traced_gpus gpus, std::vector<std::string> functions,
               rank_reader ranks, record_reader records);

  /// Writes the file, if the user wants one, and says so on standard error. Safe on several
  /// threads.
  void write(std::vector<std::string> const& places);

  /// The exit status of a program that ended with `status`: not 0 if the file lacks the trace.
  [[nodiscard]] int status_after(int status) const {
    return status == 0 && has_failed_ ? 1 : status;
  }

 private:
  launch_options const& asked_;
  traced_gpus gpus_;
  std::vector<std::string> functions_;
  rank_reader read_ranks_;
  record_reader read_records_;
  std::once_flag once_;
  bool has_failed_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
