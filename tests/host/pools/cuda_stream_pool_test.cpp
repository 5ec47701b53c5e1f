// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/cuda_stream_pool.hpp"

#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace cuda_stream_pool_test {

TEST(CudaStreamPool, RefusesAMissingDevice) {
  EXPECT_THROW((cuda_stream_pool{4, 1000}), error) << "also on a machine without CUDA";
}

TEST(CudaStreamPool, RefusesToBeEmpty) { EXPECT_THROW((cuda_stream_pool{0}), error); }

TEST(CudaStreamPool, GivesEachNumberToThreadsEquallyOften) {
  detail::round_robin turns{3};
  EXPECT_EQ(turns.next(), 0u);
  EXPECT_EQ(turns.next(), 1u);
  EXPECT_EQ(turns.next(), 2u);
  constexpr int rounds = 3000;
  std::vector<std::vector<int>> counts(2, std::vector<int>(3));
  auto const work = [&](std::vector<int>& own) {
    for (int i = 0; i != rounds; ++i) ++own[turns.next()];
  };
  std::thread other{work, std::ref(counts[1])};
  work(counts[0]);
  other.join();
  for (std::size_t i = 0; i != 3; ++i) EXPECT_EQ(counts[0][i] + counts[1][i], 2 * rounds / 3);
}

TEST(CudaStreamPool, ReturnsItsStreamsInTurn) {
  std::unique_ptr<cuda_stream_pool> streams;
  try {
    streams = std::make_unique<cuda_stream_pool>(std::size_t{3}, 0, stream_kind::non_blocking);
  } catch (resource_failed const&) {
    GTEST_SKIP() << "no GPU";
  }
  EXPECT_EQ(streams->size(), 3u);
  std::set<cuda_stream> seen;
  cuda_stream const first = streams->stream();
  for (int i = 0; i != 3; ++i) seen.insert(streams->stream());
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen.count(nullptr), 0u);
  EXPECT_EQ(streams->stream(0), first);
  EXPECT_EQ(streams->stream(4), streams->stream(1));
}

}  // namespace cuda_stream_pool_test
}  // namespace quarry::test
