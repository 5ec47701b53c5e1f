// SPDX-License-Identifier: Apache-2.0
// Two threads that nothing orders but their own calls, for tests under ThreadSanitizer.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace quarry::test {

/// Runs two functions in threads of their own, the second one later. Nothing that ThreadSanitizer
/// knows of orders them, except what they do themselves.
inline void run_unordered(std::function<void()> const& first, std::function<void()> const& second) {
  std::atomic<bool> is_first_done{false};
  std::thread later{[&] {
    while (!is_first_done.load(std::memory_order_relaxed)) std::this_thread::yield();
    second();
  }};
  std::thread earlier{[&] {
    first();
    is_first_done.store(true, std::memory_order_relaxed);
  }};
  earlier.join();
  later.join();
}

}  // namespace quarry::test
