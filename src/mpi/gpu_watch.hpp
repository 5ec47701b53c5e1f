// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"
#ifdef QUARRY_MPI_PROCESSES
#include "process_states.hpp"
#endif
#include "signal_watch.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <functional>

namespace quarry::inline QUARRY_ABI::mpi {

/// Watches the ranks while they run on a GPU: finds deadlocks, and ends programs that were aborted
/// or interrupted. Reads the ranks' state now and then; the ranks do nothing for it.
class gpu_watch {
 public:
  /// `first_rank` is that of this process, and `count` is how many it has.
  /// `all`, `ranks` and `records` are memory of the GPU.
  /// `end_after_fault` ends the process; it is called on another thread if the driver has ended the
  /// program and the launcher's thread waits for the driver.
  gpu_watch(std::uint32_t first_rank, std::uint32_t count, world* all, rank_state const* ranks,
            char const* records, bytes record_bytes, bytes heap_bytes,
            std::vector<std::string> places, std::function<void()> end_after_fault);
  gpu_watch(gpu_watch const&) = delete;
  ~gpu_watch();

#ifdef QUARRY_MPI_PROCESSES
  /// From now on, looks for deadlocks together with the other processes.
  void join(process_states& states) { states_ = &states; }
#endif

  /// Looks at the ranks if it is time to. Calls `before_report` before it reports. Returns false if
  /// the program was aborted and some ranks do not end: the process must end then.
  [[nodiscard]] bool look(std::function<void()> const& before_report);

  /// The ranks have got something from the host, or written something: they are not in a deadlock.
  /// Those that an abort must end may have waited for the host until now.
  void note_progress() {
    was_still_ = false;
    abort_seen_ = clock::now();
  }

  /// How often the ranks have got what they waited for, in all.
  [[nodiscard]] double steps();
  /// Whether the program was aborted. Asks the GPU.
  [[nodiscard]] bool is_aborted() const;

  /// The exit status if `look` has returned false.
  [[nodiscard]] int end_status() const { return end_status_; }

  /// After the kernel has ended: reports why the ranks ended early. Returns the exit status.
  [[nodiscard]] int end();

 private:
  using clock = std::chrono::steady_clock;

  void read_ranks();
  [[nodiscard]] bool is_stuck();
  bool find_deadlock();
#ifdef QUARRY_MPI_PROCESSES
  bool find_deadlock_of_processes(std::uint64_t round);
  void end_after_deadlock(std::function<void()> const& before_report);
#endif
  void abort_ranks(int code);
  void copy(void* target, void const* source, bytes size, cudaMemcpyKind kind) const;

  std::uint32_t first_rank_;  // of this process
  world* all_;
  rank_state const* ranks_;
  char const* records_;
  bytes record_bytes_;
  bytes heap_bytes_;
  std::vector<std::string> places_;
  std::vector<rank_state> seen_;
  std::vector<std::uint64_t> steps_;      // of each rank, at the last look
  std::vector<std::uint32_t> at_places_;  // of each rank: its last MPI call
  clock::time_point last_look_ = clock::now();
  clock::time_point abort_seen_{};
  bool is_aborted_ = false;
  bool was_still_ = false;
#ifdef QUARRY_MPI_PROCESSES
  process_states* states_ = nullptr;
  std::uint64_t round_ = 0;  // before the last look
#endif
  int end_status_ = 1;
  cudaStream_t stream_ = nullptr;
  std::atomic<int> signal_ = 0;
  int handled_signal_ = 0;
  signal_watch signals_;  // last: its thread uses `signal_`
};

}  // namespace quarry::inline QUARRY_ABI::mpi
