// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as fibers on one thread.
#include "compared_memory.hpp"
#include "cpu_world.hpp"
#include "fault_report.hpp"
#include "launcher.hpp"
#include "rank_stacks.hpp"
#include "signal_watch.hpp"
#include "trace_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>

extern "C" std::uint64_t const quarry_mpi_record_bytes;
extern "C" char const quarry_mpi_cpu_places[], quarry_mpi_cpu_places_end[];
extern "C" char const quarry_mpi_cpu_traced[], quarry_mpi_cpu_traced_end[];

extern "C" void* quarry_mpi_record() { return &quarry::mpi::own_record(); }

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

line_writer* writer = nullptr;
std::timed_mutex writer_lock;  // of the lines: the ranks' thread writes, and the watch's at the end
cpu_world* running = nullptr;
trace_writer* traced = nullptr;  // null until the ranks begin

std::vector<std::string> places() {
  return texts_of(quarry_mpi_cpu_places, quarry_mpi_cpu_places_end);
}

/// Writes what ranks have written, then `report`, and ends the process.
[[noreturn]] void end_process(std::string const& report, int code) {
  // The ranks' thread may be in a write that never ends.
  if (writer_lock.try_lock_for(std::chrono::seconds{1})) writer->finish();
  std::fputs(report.c_str(), stderr);
  if (traced != nullptr) traced->write(places());
  std::fflush(stderr);
  _exit(code);
}

/// Ends the program on SIGINT and SIGTERM, and if a rank computes on although the program was
/// aborted: the ranks share a thread, so that no other rank would run again. Used by the thread of
/// its signal_watch.
class end_watch {
 public:
  end_watch(cpu_world& all, simt::host_lane* const& current_lane)
      : all_{all},
        current_lane_{current_lane},
        watch_{[this](int signal) { abort(signal); },
               [this] {
                 write_errors();
                 end_late_ranks();
               }} {}

 private:
  static void write_errors() {
    if (std::unique_lock const guard{writer_lock, std::try_to_lock}) writer->write_errors();
  }

  void abort(int signal) {
    std::fputs(describe_signal(signal).c_str(), stderr);
    all_.state().abort_code = status_of_signal(signal);
    std::atomic_ref{all_.state().aborted}.store(1, std::memory_order_release);
  }

  void end_late_ranks() {
    if (std::atomic_ref{all_.state().aborted}.load(std::memory_order_acquire) == 0) return;
    if (++ticks_ <= 10 * grace_seconds) return;
    auto ranks = all_.ranks();
    std::vector<std::uint32_t> last_calls;
    simt::host_lane const* const lane = current_lane_;
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      char const* const record = layout().records + i * layout().record_bytes;
      last_calls.push_back(reinterpret_cast<record_header const*>(record)->place);
      bool const is_current = lane == nullptr || lane->own_place().rank() == i;
      if (!is_current) ranks[i].stage = life::done;  // it waits for the thread
    }
    std::string reason = describe_failure(all_.state().first_failure, places());
    int code = 1;
    try {
      code = all_.status();
    } catch (std::exception const& problem) {
      reason += std::string{"quarry-mpirun: "} + problem.what() + '\n';
    }
    end_process(reason + describe_unfinished(ranks, last_calls, places()), code);
  }

  cpu_world& all_;
  simt::host_lane* const& current_lane_;  // of the ranks' thread; read while that thread runs
  int ticks_ = 0;                         // since the abort
  signal_watch watch_;                    // last: its thread uses the others
};

/// The trace's memory, which the host provides where ranks use it. Null without a trace.
class trace_buffers {
 public:
  explicit trace_buffers(launch_options const& asked)
      : limit_{trace_limit(asked)},
        ranks_(asked.trace.empty() ? 0 : asked.ranks),
        records_{asked.trace.empty() ? nullptr
                                     : static_cast<trace_record*>(std::calloc(
                                           std::size_t{asked.ranks} * (std::size_t{limit_} + 1),
                                           sizeof(trace_record))),
                 &std::free} {
    if (!asked.trace.empty() && records_ == nullptr)
      throw out_of_memory{"the trace", asked.ranks * (bytes{limit_} + 1) * sizeof(trace_record),
                          "run with fewer --trace-events"};
  }
  [[nodiscard]] trace_memory memory() { return {records_.get(), ranks_.data(), limit_, 0}; }
  [[nodiscard]] std::vector<rank_trace> const& ranks() const { return ranks_; }
  void read(trace_record* to, std::uint64_t first, std::uint64_t count) const {
    std::copy_n(records_.get() + first, count, to);
  }

 private:
  std::uint32_t limit_;
  std::vector<rank_trace> ranks_;
  std::unique_ptr<trace_record, void (*)(void*)> records_;
};

/// The memory that the system can still give; 0 if unknown.
bytes available_memory() {
  std::ifstream file{"/proc/meminfo"};
  for (std::string word; file >> word;) {
    bytes kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// Throws bad_argument, which says what takes how much, if the ranks do not fit.
void check_memory(std::uint32_t ranks) {
  constexpr bytes of_stack = 8 * 1024;  // the pages that each rank touches
  constexpr bytes of_rank = sizeof(rank_state) + sizeof(early_end) + 2048;  // and the scheduler's
  bytes const records = ranks * quarry_mpi_record_bytes;
  bytes const total = records + ranks * (of_stack + of_rank);
  bytes const available = available_memory();
  if (available == 0 || total <= available) return;
  throw bad_argument{"-n " + std::to_string(ranks) +
                     ": the ranks do not fit: " + gigabytes(records) + " of global variables (" +
                     std::to_string(quarry_mpi_record_bytes) + " bytes of each rank) and " +
                     gigabytes(total - records) + " for stacks and the ranks' state are " +
                     gigabytes(total) + "; the host has " + gigabytes(available) +
                     ". Run with fewer ranks"};
}

}  // namespace

/// Ends the program if no rank can continue: each has looked for its message since anything
/// happened.
void find_deadlock(std::uint64_t activity) {
  if (!running->is_stuck(activity)) return;
  end_process("quarry-mpirun: deadlock: no rank can continue\n" +
                  describe_waits(running->ranks(), places()),
              status_of_deadlock(running->ranks()));
}

int run_on_cpu(launch_options const& asked, int argc, char** argv) {
  check_memory(asked.ranks);
  auto const functions = texts_of(quarry_mpi_cpu_traced, quarry_mpi_cpu_traced_end);
  check_trace(asked, functions);
  trace_buffers trace{asked};
  trace_writer trace_output{asked, functions, [&] { return trace.ranks(); },
                            [&](trace_record* to, std::uint64_t first, std::uint64_t count) {
                              trace.read(to, first, count);
                            }};
  line_writer lines{asked.ranks, places()};
  writer = &lines;
  cpu_world all{{asked.ranks, asked.heap, quarry_mpi_record_bytes, argc, argv}};
  compared_memory const compared{asked.malloc, backend::cpu};
  all.state().malloc = asked.malloc;
  all.state().compared_heap = compared.state();
  all.state().trace = trace.memory();
  running = &all;
  traced = &trace_output;
  std::uint32_t const threads = asked.ranks < 256 ? asked.ranks : 256;
  std::uint32_t const blocks = (asked.ranks + threads - 1) / threads;
  rank_stacks const stacks{blocks * threads, asked.stack};
  if (asked.is_verbose)
    std::fprintf(stderr, "quarry-mpirun: %u ranks on the CPU; stack of a rank: %llu bytes%s\n",
                 asked.ranks, static_cast<unsigned long long>(stacks.size()),
                 stacks.is_protected() ? "" : ", whose overflow is not found with so many ranks");
  set_stacks(&stacks);
  set_output(&lines);
  simt::fiber_schedule schedule{.seed = asked.seed + 1, .switches = asked.seed == 0 ? 0u : 64u};
  schedule.stacks = stacks.memory();
  {
    end_watch const watch{all, simt::current_lane};
    simt::launch_fibers({blocks, threads}, schedule, [&] { all.run_own_rank(); });
  }
  set_stacks(nullptr);
  set_output(nullptr);
  lines.finish();
  trace_output.write(places());
  std::fputs(describe_failure(all.state().first_failure, places()).c_str(), stderr);
  return all.status();
}

}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" void quarry_mpi_write(std::uint32_t rank, std::uint8_t stream, char const* text,
                                 std::uint64_t length) {
  std::lock_guard const guard{quarry::mpi::writer_lock};
  quarry::mpi::writer->add(rank, stream, text, length);
}
