// SPDX-License-Identifier: Apache-2.0
// The launcher in each program that quarry-mpicc makes.
#pragma once

#include "world.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// What quarry-mpirun asks for, in environment variables.
struct launch_options {
  std::uint32_t ranks = 1;
  bool uses_gpu = false;
  bytes heap = 0;                    // 0: a default
  bytes stack = 0;                   // of each rank; 0: GPU: from the call graph; CPU: a default
  std::uint32_t gpus = 1;            // that share the ranks
  std::uint32_t ranks_per_warp = 0;  // GPU: a power of two; 0: as few as fit
  std::uint32_t registers = 0;       // GPU: 32, 64, 128 or 255; 0: chosen for the ranks
  malloc_kind malloc = malloc_kind::collective;
  bool is_verbose = false;         // says what the program gets
  std::string trace;               // the file to write; empty: no trace
  std::uint32_t trace_events = 0;  // of each rank; 0: as many as take 256 MB
  std::uint64_t seed = 0;          // CPU: of the scheduler; 0: ranks switch only where they wait
  std::uint32_t threads = 1;       // CPU: of the system, that run the ranks; 0: one for each core
  std::uint32_t processes = 1;     // that share the ranks
  std::uint32_t process = 0;       // the number of this one
  std::string meeting_file;        // in which the processes find each other

  /// The ranks of each process but the last.
  [[nodiscard]] std::uint32_t ranks_each() const { return (ranks + processes - 1) / processes; }
  [[nodiscard]] std::uint32_t first_rank() const { return process * ranks_each(); }
  /// The ranks of this process.
  [[nodiscard]] std::uint32_t own_ranks() const {
    std::uint32_t const left = ranks - first_rank();
    return left < ranks_each() ? left : ranks_each();
  }
};

/// The ranks of the GPU that has the most.
[[nodiscard]] inline std::uint32_t ranks_of_gpu(launch_options const& asked) {
  return (asked.own_ranks() + asked.gpus - 1) / asked.gpus;
}

/// Writes complete lines of each rank, so that lines of different ranks do not mix.
class line_writer {
 public:
  /// `places` are those of the source.
  line_writer(std::uint32_t ranks, std::vector<std::string> places)
      : parts_(2 * std::size_t{ranks}), places_{std::move(places)} {}
  /// `stream` as in output_record.
  void add(std::uint32_t rank, std::uint8_t stream, char const* text, std::size_t length);
  /// Writes lines without an end on standard error, if they have not grown since the last call.
  /// Call it ten times a second: programs expect this text to appear at once.
  void write_errors();
  /// Writes what has no end of line yet, and how many reports of the checks were not shown.
  /// Allocates nothing.
  void finish();

 private:
  void write_report(std::string_view line);
  [[nodiscard]] std::string with_places(std::string_view line) const;
  [[nodiscard]] bool is_shown(std::string_view report);

  std::vector<std::string> parts_;  // of each rank: for standard output and standard error
  std::vector<std::string> places_;
  std::map<std::uint32_t, std::size_t> errors_;  // for standard error: its size at the last call
  std::map<std::string, std::size_t, std::less<>> reports_;  // how many, by text without a rank
};

/// Texts that the compiler has embedded, by number: places in the source, names of functions.
std::vector<std::string> texts_of(char const* begin, char const* end);

/// A table of what the ranks wait for; ranks that wait alike are one row. `first` is the number of
/// the first of these ranks.
std::string describe_waits(std::vector<rank_state> const& ranks,
                           std::vector<std::string> const& places, std::uint32_t first);

/// The report of a deadlock, about all ranks of the program.
std::string describe_deadlock(std::vector<rank_state> const& ranks,
                              std::vector<std::string> const& places);

/// The exit status after a deadlock: the first status of a rank that has ended and is not 0, since
/// others may wait for that rank; else 1.
int status_of_deadlock(std::vector<rank_state> const& ranks);

/// The message for a program that ended early, with the place in the source; empty if there is
/// none.
std::string describe_failure(failure const& first, std::vector<std::string> const& places);

/// For a program that has failed: the line about malloc and its family having returned null, which
/// is easy to overlook; empty if they have not. Writes it into `text`, allocates nothing, and
/// returns its length.
std::size_t describe_refusals(refused_memory const& refused, char (&text)[256]);
std::string describe_refusals(refused_memory const& refused);

/// A table of the ranks that have not ended although the program was aborted. `last_calls`: the
/// number of the place of each rank's last MPI call.
std::string describe_unfinished(std::vector<rank_state> const& ranks,
                                std::vector<std::uint32_t> const& last_calls,
                                std::vector<std::string> const& places);

/// The message for a program that SIGINT or SIGTERM ends.
std::string describe_signal(int signal);

/// Runs the program on the machine. Returns the exit status.
int run_on_cpu(launch_options const& asked, int argc, char** argv);
int run_on_gpu(launch_options const& asked, int argc, char** argv);

/// Whether there is a GPU that can run the program.
bool has_gpu();

}  // namespace quarry::inline QUARRY_ABI::mpi
