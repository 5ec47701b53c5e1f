// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/on_host.hpp"

#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace quarry::test {
namespace opencl_on_host_test {

namespace cl = opencl_c;

TEST(OpenclOnHost, BuiltInFunctionsAreOpenclCs) {
  EXPECT_EQ(cl::clz(0), 32u);
  EXPECT_EQ(cl::clz(1), 31u);
  EXPECT_EQ(cl::popcount(0xf0f0u), 8u);
  EXPECT_EQ(cl::rotate(0x80000001u, 1), 3u);
  EXPECT_EQ(cl::get_local_size(0), 1u) << "outside a launch there is one work-item";
}

TEST(OpenclOnHost, AtomicsReturnThePreviousWord) {
  std::uint32_t word = 6;
  EXPECT_EQ(cl::quarry_or_acq_rel(&word, 1), 6u);
  EXPECT_EQ(cl::quarry_and_release(&word, 3), 7u);
  EXPECT_EQ(cl::quarry_add_relaxed(&word, 2), 3u);
  EXPECT_EQ(cl::quarry_exchange_acquire(&word, 9), 5u);
  EXPECT_EQ(cl::quarry_cas_acq_rel(&word, 1, 2), 9u);
  EXPECT_EQ(cl::quarry_cas_acq_rel(&word, 9, 4), 9u);
  EXPECT_EQ(cl::quarry_cas_relaxed(&word, 4, 5), 4u);
  EXPECT_EQ(cl::quarry_load_relaxed(&word), 5u);
}

// ThreadSanitizer sees a race on `message` if a compare-and-swap that fails does not acquire.
TEST(OpenclOnHostOnThreads, ACompareAndSwapThatFailsAcquires) {
  for (int round = 0; round < 100; ++round) {
    std::uint32_t flag = 0, message = 0, started = 0;
    simt::launch_threads({2, 1}, 2, [&] {
      cl::quarry_add_relaxed(&started, 1);
      while (cl::quarry_load_relaxed(&started) != 2) std::this_thread::yield();
      if (simt::this_place().block == 0) {
        message = 7;
        cl::quarry_store_release(&flag, 1);
      } else if (cl::quarry_cas_acq_rel(&flag, 0, 0) == 1) {
        EXPECT_EQ(message, 7u);
      }
    });
  }
}

}  // namespace opencl_on_host_test
}  // namespace quarry::test
