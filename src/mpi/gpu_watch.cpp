// SPDX-License-Identifier: Apache-2.0
#include "gpu_watch.hpp"

#include "device_memory.hpp"
#include "fault_core.hpp"
#include "heap_share.hpp"

#include <unistd.h>

#include <cstdio>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using namespace std::chrono;

constexpr auto time_between_looks = milliseconds{500};
constexpr auto grace = duration<double>{grace_seconds};

/// Ends the process after a signal or a fault if the launcher does not: it may wait for the driver.
std::function<void()> end_late(std::atomic<int> const& signal,
                               std::function<void()> end_after_fault) {
  return [&signal, end = std::move(end_after_fault), after_signal = 0, after_fault = 0]() mutable {
    if (fault_core::is_written() && ++after_fault > 10) end();
    if (signal.load() != 0 && ++after_signal > 10 * (grace_seconds + 3))
      _exit(status_of_signal(signal.load()));
  };
}

}  // namespace

gpu_watch::gpu_watch(std::uint32_t first_rank, std::uint32_t count, world* all,
                     rank_state const* ranks, char const* records, bytes record_bytes,
                     bytes heap_bytes, std::vector<std::string> places,
                     std::function<void()> end_after_fault)
    : first_rank_{first_rank},
      all_{all},
      ranks_{ranks},
      records_{records},
      record_bytes_{record_bytes},
      heap_bytes_{heap_bytes},
      places_{std::move(places)},
      seen_(count),
      steps_(count),
      at_places_(count),
      signals_{[this](int signal) { signal_.store(signal); },
               end_late(signal_, std::move(end_after_fault))} {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

gpu_watch::~gpu_watch() { cudaStreamDestroy(stream_); }

void gpu_watch::copy(void* target, void const* source, bytes size, cudaMemcpyKind kind) const {
  check(cudaMemcpyAsync(target, source, size, kind, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void gpu_watch::read_ranks() {
  constexpr bytes most_pitch = 0x7fffffff;  // of CUDA; with longer records no place is known
  if (record_bytes_ <= most_pitch)
    check(cudaMemcpy2DAsync(at_places_.data(), sizeof(std::uint32_t), records_, record_bytes_,
                            sizeof(std::uint32_t), at_places_.size(), cudaMemcpyDeviceToHost,
                            stream_),
          "cudaMemcpy2DAsync");
  copy(seen_.data(), ranks_, seen_.size() * sizeof(rank_state), cudaMemcpyDeviceToHost);
}

void gpu_watch::abort_ranks(int code) {
  std::uint32_t const aborted = 1;
  std::int32_t const status = code;
  copy(&all_->abort_code, &status, sizeof(status), cudaMemcpyHostToDevice);
  copy(&all_->aborted, &aborted, sizeof(aborted), cudaMemcpyHostToDevice);
}

/// Whether all ranks wait or have ended, and none has got anything since the last look.
bool gpu_watch::is_stuck() {
  bool is_still = true;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    is_still = is_still && (seen_[i].stage == life::done || seen_[i].waiting.call != 0) &&
               seen_[i].steps == steps_[i];
    steps_[i] = seen_[i].steps;
  }
  return is_still;
}

bool gpu_watch::find_deadlock() {
  bool const is_still = is_stuck();
  bool const is_found = is_still && was_still_;
  was_still_ = is_still && !is_found;
  return is_found;
}

#ifdef QUARRY_MPI_PROCESSES
/// Waiting ranks look many times between two looks of this watch, and words arrive much faster. So
/// the process votes in a round that began before the last look.
bool gpu_watch::find_deadlock_of_processes(std::uint64_t round) {
  std::uint64_t const last_round = round_;
  round_ = round;
  bool const is_still = is_stuck();
  bool const was_still = was_still_;
  was_still_ = is_still;
  if (!is_still || !was_still || last_round != round) return false;
  std::uint64_t sum = 0;
  for (std::uint64_t const steps : steps_) sum += steps;
  return states_->vote(round, sum);
}

void gpu_watch::end_after_deadlock(std::function<void()> const& before_report) {
  before_report();
  auto const all_ranks = states_->gather(seen_);
  int status = 0;
  if (all_ranks.empty()) {
    status = states_->status();
  } else {
    status = status_of_deadlock(all_ranks);
    states_->set_status(status);
    std::fputs(describe_deadlock(all_ranks, places_).c_str(), stderr);
    std::fflush(stderr);
  }
  states_ = nullptr;
  abort_ranks(status);
}
#endif

bool gpu_watch::look(std::function<void()> const& before_report) {
  int const signal = signal_.load();
  if (signal != handled_signal_) {
    handled_signal_ = signal;
    before_report();
    std::fputs(describe_signal(signal).c_str(), stderr);
    if (spans_processes) {  // it may be a deadlock that processes of several hosts do not find
      read_ranks();
      std::fputs(describe_waits(seen_, places_, first_rank_).c_str(), stderr);
    }
    abort_ranks(status_of_signal(signal));
  } else if (clock::now() - last_look_ < time_between_looks) {
    return true;
  }
  last_look_ = clock::now();
  std::uint32_t aborted = 0;
  copy(&aborted, &all_->aborted, sizeof(aborted), cudaMemcpyDeviceToHost);
  if (aborted != 0 && !is_aborted_) {
    is_aborted_ = true;
    abort_seen_ = last_look_;
  }
  if (is_aborted_ && last_look_ - abort_seen_ < grace) return true;
#ifdef QUARRY_MPI_PROCESSES
  std::uint64_t const round = states_ == nullptr ? 0 : states_->round();
#endif
  read_ranks();
  if (is_aborted_) {
    before_report();
    std::fputs(describe_unfinished(seen_, at_places_, places_).c_str(), stderr);
    end_status_ = end();
    return false;
  }
#ifdef QUARRY_MPI_PROCESSES
  if (states_ != nullptr) {
    if (find_deadlock_of_processes(round) || states_->is_found()) end_after_deadlock(before_report);
    return true;
  }
#endif
  if (find_deadlock()) {
    before_report();
    std::fputs(describe_deadlock(seen_, places_).c_str(), stderr);
    std::fflush(stderr);
    abort_ranks(status_of_deadlock(seen_));
  }
  return true;
}

bool gpu_watch::is_aborted() const {
  std::uint32_t aborted = 0;
  copy(&aborted, &all_->aborted, sizeof(aborted), cudaMemcpyDeviceToHost);
  return aborted != 0;
}

double gpu_watch::steps() {
  read_ranks();
  double sum = 0;
  for (auto const& rank : seen_) sum += static_cast<double>(rank.steps);
  return sum;
}

int gpu_watch::end() {
  world state{};
  copy(&state, all_, sizeof(state), cudaMemcpyDeviceToHost);
  std::fputs(describe_failure(state.first_failure, places_).c_str(), stderr);
  if (state.aborted == 2) throw heap_too_small(heap_bytes_);
  if (state.aborted != 0) return state.abort_code;
  read_ranks();
#ifdef QUARRY_MPI_PROCESSES
  if (states_ != nullptr) states_->end(seen_);
#endif
  for (auto const& rank : seen_)
    if (rank.exit_code != 0) return rank.exit_code;
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
