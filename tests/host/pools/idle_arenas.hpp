// SPDX-License-Identifier: Apache-2.0
// Arenas whose threads are idle except when a test says so.
#pragma once

#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test::idle_arenas {

/// Counts the bytes of the blocks that the arenas have.
struct counted_resource {
  std::atomic<bytes>* reserved;
  void* allocate(bytes size, bytes alignment) {
    *reserved += size;
    return host_resource{}.allocate(size, alignment);
  }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    *reserved -= size;
    host_resource{}.deallocate(memory, size, alignment);
  }
};
using arenas = thread_arenas<counted_resource>;
inline pool_options const options{.first_block = 16_MiB, .next_block = 1_MiB, .growth_percent = 0};

/// A thread with an arena of its own, which is in no call except while `run` runs.
class idle_thread {
 public:
  idle_thread() : thread_{[this] { work(); }} {}
  ~idle_thread() {
    run(nullptr);
    thread_.join();
  }
  idle_thread(idle_thread const&) = delete;
  /// Runs the task in the thread and waits for its end.
  void run(std::function<void()> task) {
    task_ = std::move(task);
    stage_ = 1;
    stage_.notify_all();
    stage_.wait(1);
  }

 private:
  void work() {
    for (bool goes_on = true; goes_on;) {
      stage_.wait(0);
      goes_on = task_ != nullptr;
      if (goes_on) task_();
      stage_ = 0;
      stage_.notify_all();
    }
  }
  std::function<void()> task_;
  std::atomic<int> stage_{0};
  std::thread thread_;
};

using allocations = std::vector<void*>;
inline allocations allocate(arenas& source, bytes size, std::size_t count) {
  allocations result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(source.allocate(size));
  return result;
}
inline void deallocate(arenas& source, allocations& freed) {
  for (void* const each : freed) ASSERT_TRUE(source.deallocate(each));
  freed.clear();
}
inline bool is_sound(arenas& source) {
  auto const problems = source.audit();
  return problems.empty() ? true : (ADD_FAILURE() << problems.front(), false);
}

}  // namespace quarry::test::idle_arenas
