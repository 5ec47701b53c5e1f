// SPDX-License-Identifier: Apache-2.0
// Pools of streams on two devices, over a fake of CUDA. Its streams have a device, and only that
// device may destroy them.
#include "quarry/host/pools/cuda_stream_pool.hpp"

#include "support/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace quarry::test {
namespace fake_stream_pools_test {

class CudaStreamPools : public testing::Test {
 protected:
  CudaStreamPools() { gpu = fake_cuda{}; }
  ~CudaStreamPools() override {
    EXPECT_TRUE(gpu.streams.empty());
    EXPECT_EQ(gpu.mistakes, 0);
    EXPECT_EQ(gpu.device, 0) << "the caller's device is current again";
  }
  fake_cuda& gpu = fake_cuda::instance();
};

TEST_F(CudaStreamPools, OfTwoDevicesHaveStreamsOfTheirDevice) {
  auto first = std::make_unique<cuda_stream_pool>(3, 0);
  cuda_stream_pool second{2, 1};
  EXPECT_EQ(gpu.streams.size(), 5u);
  std::set<cuda_stream> of_first, of_second;
  for (int i = 0; i < 6; ++i) {  // in turn, as a program that uses both devices calls them
    of_first.insert(first->stream());
    of_second.insert(second.stream());
  }
  EXPECT_EQ(of_first.size(), 3u);
  EXPECT_EQ(of_second.size(), 2u);
  for (cuda_stream const stream : of_first) EXPECT_EQ(gpu.streams.at(stream), 0);
  for (cuda_stream const stream : of_second) EXPECT_EQ(gpu.streams.at(stream), 1);
  first.reset();
  EXPECT_EQ(gpu.streams.size(), 2u);
  EXPECT_EQ(gpu.streams.count(second.stream()), 1u) << "the other pool keeps its streams";
}

TEST_F(CudaStreamPools, DestroyTheirStreamsWhileAnotherDeviceIsCurrent) {
  auto second = std::make_unique<cuda_stream_pool>(4, 1);
  EXPECT_EQ(gpu.device, 0);
  cuda_stream_pool const first{4, 0};
  second.reset();
  EXPECT_EQ(gpu.streams.size(), 4u);
}

TEST_F(CudaStreamPools, LeaveNoStreamIfOneCannotBeMade) {
  cuda_stream_pool const first{2, 0};
  gpu.calls_that_work = 2;
  EXPECT_THROW((cuda_stream_pool{4, 1}), resource_failed);
  EXPECT_EQ(gpu.streams.size(), 2u);
  EXPECT_THROW((cuda_stream_pool{4, 2}), bad_argument) << "the fake has two devices";
}

}  // namespace fake_stream_pools_test
}  // namespace quarry::test
