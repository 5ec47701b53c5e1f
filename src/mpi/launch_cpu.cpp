// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as fibers, on one thread or several.
#include "compared_memory.hpp"
#include "cpu_threads.hpp"
#include "cpu_world.hpp"
#include "fault_report.hpp"
#include "launcher.hpp"
#ifdef QUARRY_MPI_PROCESSES
#include "process_states.hpp"
#endif
#include "rank_stacks.hpp"
#include "signal_watch.hpp"
#include "size_text.hpp"
#include "trace_file.hpp"
#include "wrong_addresses.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

extern "C" std::uint64_t const quarry_mpi_record_bytes;
extern "C" char const quarry_mpi_cpu_places[], quarry_mpi_cpu_places_end[];
extern "C" char const quarry_mpi_cpu_traced[], quarry_mpi_cpu_traced_end[];

extern "C" void* quarry_mpi_record() { return &quarry::mpi::own_record(); }

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

line_writer* writer = nullptr;
std::timed_mutex writer_lock;  // of the lines: ranks write, and the watch's thread
cpu_world* running = nullptr;
trace_writer* traced = nullptr;  // null until the ranks begin

std::vector<std::string> places() {
  return texts_of(quarry_mpi_cpu_places, quarry_mpi_cpu_places_end);
}

/// Writes what ranks have written, then `report`, and ends the process. Only the first call does
/// so.
[[noreturn]] void end_process(std::string const& report, int code) {
  static std::mutex first;
  first.lock();
  // A rank may be in a write that never ends.
  if (writer_lock.try_lock_for(std::chrono::seconds{1})) writer->finish();
  std::fputs(report.c_str(), stderr);
  if (traced != nullptr) {
    traced->write(places());
    code = traced->status_after(code);
  }
  std::fflush(stderr);
  _exit(code);
}

/// The threads that run ranks.
class rank_threads {
 public:
  /// The calling thread runs ranks as long as this lives.
  class membership {
   public:
    explicit membership(rank_threads& all) : all_{all} {
      std::lock_guard const guard{all_.lock_};
      all_.lanes_.push_back(&simt::current_lane);
    }
    ~membership() {
      std::lock_guard const guard{all_.lock_};
      std::erase(all_.lanes_, &simt::current_lane);
    }
    membership(membership const&) = delete;

   private:
    rank_threads& all_;
    handler_stack stack_;
  };

  /// Calls `each(rank)` for the rank that each thread runs at this moment. Returns false if a
  /// thread is between two ranks.
  template <class Each>
  bool for_each_running(Each const& each) {
    std::lock_guard const guard{lock_};
    bool is_known = true;
    for (simt::host_lane* const* const current : lanes_) {
      simt::host_lane const* const lane = *current;
      if (lane != nullptr)
        each(static_cast<std::uint32_t>(lane->own_place().rank()));
      else
        is_known = false;
    }
    return is_known;
  }

 private:
  std::mutex lock_;
  std::vector<simt::host_lane* const*> lanes_;  // the threads' `simt::current_lane`
};

/// Ends the program on SIGINT and SIGTERM, and if a rank computes on although the program was
/// aborted: ranks share a thread, so that others of this thread would not run again. Used by the
/// thread of its signal_watch.
class end_watch {
 public:
  end_watch(cpu_world& all, rank_threads& threads)
      : all_{all},
        threads_{threads},
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
    if (spans_processes)  // it may be a deadlock that processes of several hosts do not find
      std::fputs(describe_waits(all_.ranks(), places(), layout().first_rank).c_str(), stderr);
    all_.state().abort_code = status_of_signal(signal);
    std::atomic_ref{all_.state().aborted}.store(1, std::memory_order_release);
  }

  void end_late_ranks() {
    if (std::atomic_ref{all_.state().aborted}.load(std::memory_order_acquire) == 0) return;
    if (++ticks_ <= 10 * grace_seconds) return;
    auto ranks = all_.ranks();
    std::vector<std::uint32_t> last_calls;
    std::vector<bool> runs(ranks.size(), false);
    bool const is_known = threads_.for_each_running([&](std::uint32_t rank) {
      if (rank < runs.size()) runs[rank] = true;
    });
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      char const* const record = layout().records + i * layout().record_bytes;
      last_calls.push_back(reinterpret_cast<record_header const*>(record)->place);
      if (is_known && !runs[i]) ranks[i].stage = life::done;  // it waits for its thread
    }
    std::string reason = describe_failure(all_.state().first_failure, places());
    reason += describe_refusals(*all_.state().refused);
    int code = 1;
    try {
      code = all_.status();
    } catch (std::exception const& problem) {
      reason += std::string{"quarry-mpirun: "} + problem.what() + '\n';
    }
    end_process(reason + describe_unfinished(ranks, last_calls, places()), code);
  }

  cpu_world& all_;
  rank_threads& threads_;
  int ticks_ = 0;       // since the abort
  signal_watch watch_;  // last: its thread uses the others
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
                     ": the ranks do not fit: " + text_of_size(records) + " of global variables (" +
                     std::to_string(quarry_mpi_record_bytes) + " bytes of each rank) and " +
                     text_of_size(total - records) + " for stacks and the ranks' state are " +
                     text_of_size(total) + "; the host has " + text_of_size(available) +
                     ". Run with fewer ranks"};
}

/// How many threads run the ranks. Throws bad_argument for what only one thread can do.
std::uint32_t threads_for(launch_options const& asked) {
  std::uint32_t const wanted =
      asked.threads != 0 ? asked.threads : std::max(1u, std::thread::hardware_concurrency());
  std::uint32_t const threads = std::min(wanted, asked.own_ranks());
  if (threads > 1 && asked.seed != 0)
    throw bad_argument{"--seed " + std::to_string(asked.seed) +
                       ": the order of ranks is repeatable only with --threads 1"};
  return threads;
}

#ifdef QUARRY_MPI_PROCESSES
process_states* states = nullptr;  // of several processes

/// Ends this process: no rank of any process can continue.
[[noreturn]] void end_after_deadlock() {
  static std::mutex first;
  first.lock();
  auto const all_ranks = states->gather(running->ranks());
  if (all_ranks.empty()) end_process("", states->status());
  int const status = status_of_deadlock(all_ranks);
  states->set_status(status);
  end_process(describe_deadlock(all_ranks, places()), status);
}

/// `activity` is the sum of the ranks' activity and of the round. Both only grow, so that a sum has
/// one meaning.
void find_deadlock_of_processes(std::uint64_t activity) {
  std::uint64_t const round = states->round();
  bool const is_stuck = running->is_stuck(activity) && states->round() == round &&
                        states->vote(round, activity - round);
  if (is_stuck || states->is_found()) end_after_deadlock();
}
#endif

}  // namespace

/// Ends the program if no rank can continue: each has looked for its message since anything
/// happened.
void find_deadlock(std::uint64_t activity) {
#ifdef QUARRY_MPI_PROCESSES
  if (states != nullptr) return find_deadlock_of_processes(activity);
#endif
  if (running->is_stuck(activity))
    end_process(describe_deadlock(running->ranks(), places()),
                status_of_deadlock(running->ranks()));
}

int run_on_cpu(launch_options const& asked, int argc, char** argv) {
  std::uint32_t const system_threads = threads_for(asked);
  std::uint32_t const own_ranks = asked.own_ranks();
  check_memory(own_ranks);
  auto const functions = texts_of(quarry_mpi_cpu_traced, quarry_mpi_cpu_traced_end);
  check_trace(asked, functions);
  trace_buffers trace{asked};
  launch_options traced_options = asked;
  traced_options.threads = system_threads;
  trace_writer trace_output{traced_options,
                            {},
                            functions,
                            [&] { return trace.ranks(); },
                            [&](trace_record* to, std::uint64_t first, std::uint64_t count) {
                              trace.read(to, first, count);
                            }};
  line_writer lines{asked.ranks, places()};
  writer = &lines;
#ifdef QUARRY_MPI_PROCESSES
  process_states of_processes{asked.meeting_file, asked.process, asked.processes, asked.ranks,
                              asked.ranks_each()};
#endif
  cpu_world all{{.ranks = own_ranks,
                 .heap = asked.heap / asked.processes,
                 .record = quarry_mpi_record_bytes,
                 .argc = argc,
                 .argv = argv,
                 .threads = system_threads,
                 .all_ranks = asked.ranks,
                 .processes = asked.processes,
                 .process = asked.process,
                 .meeting_file = asked.meeting_file,
                 .seed = asked.seed}};
#ifdef QUARRY_MPI_PROCESSES
  if (asked.processes > 1) {
    of_processes.join();
    states = &of_processes;
    quarry_mpi_round = of_processes.round_word();
  }
#endif
  compared_memory const compared{asked.malloc, backend::cpu};
  all.state().malloc = asked.malloc;
  all.state().compared_heap = compared.state();
  all.state().trace = trace.memory();
  running = &all;
  traced = &trace_output;
  std::uint32_t const threads = own_ranks < 256 ? own_ranks : 256;
  std::uint32_t const blocks = (own_ranks + threads - 1) / threads;
  rank_stacks const stacks{blocks * threads, asked.stack};
  if (asked.is_verbose)
    std::fprintf(
        stderr, "quarry-mpirun: %u ranks on %sthe CPU; stack of a rank: %s%s\n", own_ranks,
        system_threads == 1 ? "" : (std::to_string(system_threads) + " threads of ").c_str(),
        size_text{stacks.size()}.c_str(),
        stacks.is_protected() ? "" : ", whose overflow is not found with so many ranks");
  set_stacks(&stacks);
  set_output(&lines, &writer_lock);
  simt::fiber_schedule schedule{.seed = asked.seed + 1, .switches = asked.seed == 0 ? 0u : 64u};
  schedule.stacks = stacks.memory();
  if (!asked.trace.empty()) schedule.clock = &thread_time_ns;
  {
    rank_threads running_threads;
    end_watch const watch{all, running_threads};
    auto const run = [&](simt::lane_part part) {
      rank_threads::membership const own{running_threads};
      simt::fiber_schedule own_schedule = schedule;
      if (system_threads > 1) own_schedule.part = part;
      simt::launch_fibers({blocks, threads}, own_schedule, [&] { all.run_own_rank(); });
    };
    run_on_threads(own_ranks, system_threads, run, [&] {
      std::atomic_ref{all.state().aborted}.store(1, std::memory_order_release);
    });
  }
#ifdef QUARRY_MPI_PROCESSES
  of_processes.end(all.ranks());
  quarry_mpi_round = nullptr;
  states = nullptr;
#endif
  set_stacks(nullptr);
  set_output(nullptr, nullptr);
  lines.finish();
  trace_output.write(places());
  std::fputs(describe_failure(all.state().first_failure, places()).c_str(), stderr);
  int const status = trace_output.status_after(all.status());
  std::fputs(describe_wrong_addresses({&all.memory()}, all.state().wrong_addresses,
                                      [=, &asked](fault const& each) {
                                        return asked.first_rank() +
                                               std::uint64_t{each.block} * threads + each.thread;
                                      })
                 .c_str(),
             stderr);
  if (status != 0) std::fputs(describe_refusals(*all.state().refused).c_str(), stderr);
  return status;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" void quarry_mpi_write(std::uint32_t rank, std::uint8_t stream, char const* text,
                                 std::uint64_t length) {
  std::lock_guard const guard{quarry::mpi::writer_lock};
  quarry::mpi::writer->add(rank, stream, text, length);
}
