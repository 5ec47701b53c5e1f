// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/launch.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quarry::inline QUARRY_ABI::simt {
namespace {

/// A lane on an OS thread. `block`, `grid` and `word` are null when lanes share threads.
class thread_lane final : public host_lane {
 public:
  thread_lane(place own, std::barrier<>* block, std::barrier<>* grid, std::uint64_t* word)
      : host_lane{own}, block_{block}, grid_{grid}, word_{word} {}

  bool has_warps() const override { return false; }
  lane_mask coalesce(void const*) override { return lane_mask{1} << lane(); }

  std::array<std::uint64_t, warp_size> const& exchange(lane_mask, std::uint64_t value,
                                                       char const*) override {
    values_[lane()] = value;
    return values_;
  }

  void block_barrier() override { wait(block_, "block_barrier"); }
  void grid_barrier() override { wait(grid_, "grid_barrier"); }
  std::uint64_t& block_word() override {
    if (word_ == nullptr) wait(nullptr, "block_word");
    return *word_;
  }
  void interleave() override {}
  void pause() override { yield_thread(); }

 private:
  static void wait(std::barrier<>* barrier, char const* name) {
    if (barrier == nullptr) {
      throw bad_state{
          std::string{name} +
          ": in launch_threads a barrier needs a thread for each lane; raise max_threads"};
    }
    barrier->arrive_and_wait();
  }

  std::barrier<>* block_;
  std::barrier<>* grid_;
  std::uint64_t* word_;
  std::array<std::uint64_t, warp_size> values_{};
};

/// Keeps the first exception of several threads.
class first_exception {
 public:
  void keep_current() {
    std::lock_guard const lock{mutex_};
    if (!exception_) exception_ = std::current_exception();
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
};

void run_lane(thread_lane& lane, kernel_ref kernel, first_exception& failure) {
  current_lane = &lane;
  try {
    kernel();
  } catch (...) {
    failure.keep_current();
  }
  current_lane = nullptr;
}

/// Holds threads back until all of them have started. If one cannot start, none of them runs: a
/// lane must not wait at a barrier for a lane that has no thread.
class start_gate {
 public:
  /// Waits for `open` or `cancel`. Returns whether to run.
  [[nodiscard]] bool passes() const {
    state_.wait(closed);
    return state_.load() == opened;
  }
  void open() { set(opened); }
  void cancel() { set(cancelled); }

 private:
  enum state { closed, opened, cancelled };

  void set(state value) {
    state_.store(value);
    state_.notify_all();
  }

  std::atomic<state> state_{closed};
};

/// Throws std::system_error if the system has no thread for a lane. No lane has run then.
void run_with_barriers(grid lanes, kernel_ref kernel, first_exception& failure) {
  std::barrier<> grid{static_cast<std::ptrdiff_t>(lanes.blocks) * lanes.threads};
  std::vector<std::unique_ptr<std::barrier<>>> blocks;
  std::vector<std::uint64_t> words(lanes.blocks, 0);
  start_gate gate;
  std::vector<std::jthread> threads;  // after all that the threads use
  for (std::uint32_t block = 0; block < lanes.blocks; ++block) {
    blocks.push_back(std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(lanes.threads)));
  }
  auto const run = [&](std::uint32_t block, std::uint32_t thread) {
    if (!gate.passes()) return;
    thread_lane lane{
        {block, thread, lanes.blocks, lanes.threads}, blocks[block].get(), &grid, &words[block]};
    run_lane(lane, kernel, failure);
    blocks[block]->arrive_and_drop();
    grid.arrive_and_drop();
  };
  try {
    for (std::uint32_t block = 0; block < lanes.blocks; ++block) {
      for (std::uint32_t thread = 0; thread < lanes.threads; ++thread)
        threads.emplace_back(run, block, thread);
    }
  } catch (...) {
    gate.cancel();
    throw;
  }
  gate.open();
}

void run_shared(grid lanes, std::uint32_t thread_count, kernel_ref kernel,
                first_exception& failure) {
  std::uint64_t const count = std::uint64_t{lanes.blocks} * lanes.threads;
  std::uint64_t const batch =
      std::max<std::uint64_t>(1, count / (std::uint64_t{thread_count} * 64));
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t first = next.fetch_add(batch); first < count;
           first = next.fetch_add(batch)) {
        for (std::uint64_t rank = first; rank < std::min(count, first + batch); ++rank) {
          thread_lane lane{
              {static_cast<std::uint32_t>(rank / lanes.threads),
               static_cast<std::uint32_t>(rank % lanes.threads), lanes.blocks, lanes.threads},
              nullptr,
              nullptr,
              nullptr};
          run_lane(lane, kernel, failure);
        }
      }
    });
  }
}

}  // namespace

void yield_thread() { std::this_thread::yield(); }

void launch_threads(grid lanes, std::uint32_t max_threads, kernel_ref kernel) {
  if (max_threads == 0)
    throw bad_argument{"launch_threads: max_threads is 0; at least 1 is needed"};
  first_exception failure;
  if (std::uint64_t{lanes.blocks} * lanes.threads <= max_threads) {
    run_with_barriers(lanes, kernel, failure);
  } else {
    run_shared(lanes, max_threads, kernel, failure);
  }
  failure.rethrow();
}

}  // namespace quarry::inline QUARRY_ABI::simt
