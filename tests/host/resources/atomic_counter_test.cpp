// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/atomic_counter.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace quarry::test {

using detail::atomic_counter;
namespace atomic_counter_test {

/// Calls `work` while the process has a second thread.
template <class Work>
void beside_a_thread(Work const& work) {
  std::atomic<bool> is_done{false};
  std::thread other{[&] { is_done.wait(false); }};
  work();
  is_done = true;
  is_done.notify_one();
  other.join();
}

void expect_arithmetic() {
  atomic_counter<std::uint64_t> counter;
  std::uint64_t found = 0;
  EXPECT_EQ(counter.add(7), 7u);
  EXPECT_EQ(counter.add(std::uint64_t{0} - 3), 4u);
  EXPECT_TRUE(counter.add_within(6, 10, found));
  EXPECT_EQ(found, 4u);
  EXPECT_FALSE(counter.add_within(1, 10, found));
  EXPECT_EQ(found, 10u);
  EXPECT_FALSE(counter.add_within(~std::uint64_t{0}, 10, found)) << "the sum would wrap around";
  counter.raise(5);
  EXPECT_EQ(counter.load(), 10u);
  counter.raise(12);
  EXPECT_EQ(counter.exchange(1), 12u);
  atomic_counter<std::uint64_t> const copy{counter};
  EXPECT_EQ(copy.load(), 1u);
}

// The process may have threads of other tests, so this may repeat what the next test does.
TEST(AtomicCounter, AddsInAProcessWithOneThread) { expect_arithmetic(); }

TEST(AtomicCounter, AddsTheSameBesideAnotherThread) { beside_a_thread(expect_arithmetic); }

TEST(AtomicCounter, LosesNoChangeOfTwoThreads) {
  atomic_counter<std::int64_t> counter, peak;
  constexpr int rounds = 20000;
  auto const work = [&] {
    std::int64_t found = 0;
    for (int i = 0; i != rounds; ++i) {
      if (counter.add_within(3, 5, found)) {
        peak.raise(found + 3);
        counter.add(-3);
      }
      counter.add(1);
      counter.add(-1);
    }
  };
  std::thread other{work};
  work();
  other.join();
  EXPECT_EQ(counter.load(), 0);
  EXPECT_LE(peak.load(), 5);
}

}  // namespace atomic_counter_test
}  // namespace quarry::test
