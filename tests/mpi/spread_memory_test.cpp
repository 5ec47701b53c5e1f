// SPDX-License-Identifier: Apache-2.0
// Where the ranks' memory lies, over a fake of CUDA.
#include "mpi/spread_memory.hpp"

#include "quarry/core/errors.hpp"

#include "support/fake_cuda.hpp"
#include "support/sanitized.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>
#include <string>

namespace quarry::test {
namespace spread_memory_test {

using namespace mpi;

constexpr bytes page = fake_cuda::granularity;

class SpreadMemory : public testing::Test {
 protected:
  SpreadMemory() {
    gpu = fake_cuda{};
    gpu.devices = 8;
    gpu.mappings_keep_memory = true;
  }
  ~SpreadMemory() override {
    EXPECT_EQ(gpu.mistakes, 0);
    expect_nothing_left();
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(gpu.ranges.empty());
    EXPECT_TRUE(gpu.mappings.empty());
    EXPECT_TRUE(gpu.handles.empty());
    EXPECT_TRUE(gpu.allocations.empty());
  }

  /// The GPU that has the byte; -1 if none has.
  [[nodiscard]] int home_of(std::uint64_t address) const {
    auto const next = gpu.mappings.upper_bound(address);
    if (next == gpu.mappings.begin()) return -1;
    auto const& [begin, found] = *std::prev(next);
    return address < begin + found.size ? gpu.homes.at(found.handle) : -1;
  }

  fake_cuda& gpu = fake_cuda::instance();
};

TEST_F(SpreadMemory, EachRanksElementLiesOnItsGpuExceptAtLimitsInsidePages) {
  std::mt19937 random{1};
  for (int seed = 1; seed <= (is_sanitized ? 100 : 600); ++seed) {
    random.seed(static_cast<unsigned>(seed));
    auto const below = [&](unsigned end) { return static_cast<std::uint32_t>(random() % end); };
    std::uint32_t const gpus = 2 + below(7), of_block = 1u << below(8);
    std::uint32_t const ranks = 1 + below(3000);
    bytes const element = 1 + below(seed % 3 == 0 ? 20'000 : 200);
    auto const parts = divide_ranks(ranks, gpus, of_block);
    if (parts.size() == 1) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    spread_memory const memory{parts, element};
    auto const data = reinterpret_cast<std::uint64_t>(memory.data());
    std::set<int> users;
    for (gpu_part const& part : parts) users.insert(part.device);
    for (auto const& entry : gpu.mappings) ASSERT_EQ(entry.second.devices, users);
    for (gpu_part const& part : parts) {
      std::uint64_t const first = data + part.first_rank * element;
      std::uint64_t const end = data + (part.first_rank + part.ranks) * element;
      bool const is_first = part.device == 0, is_last = &part == &parts.back();
      // The limit between the first two GPUs is that of a page. The others are rounded.
      std::uint64_t const inner = part.device <= 1 ? first : first + page / 2;
      std::uint64_t const inner_end = is_first || is_last ? end : end - std::min(end, page / 2);
      for (std::uint64_t at = first; at < end; at += at + page < end ? page / 4 : 1) {
        int const home = home_of(at);
        ASSERT_NE(home, -1) << "no memory at byte " << at - data;
        if (at >= inner && at < inner_end) {
          ASSERT_EQ(home, part.device) << "byte " << at - data << " of " << ranks << " ranks";
        }
      }
      if (parts.size() == 2) {
        ASSERT_EQ(home_of(first), part.device);
        ASSERT_EQ(home_of(end - 1), part.device);
      }
    }
  }
}

TEST_F(SpreadMemory, MapsNoMoreThanTheElementsAndTwoPages) {
  for (std::uint32_t gpus = 2; gpus <= 8; ++gpus)
    for (bytes const element : {bytes{1}, bytes{48}, page, 3 * page + 16}) {
      spread_memory const memory{divide_ranks(1000, gpus, 32), element};
      bytes mapped = 0;
      for (auto const& entry : gpu.mappings) mapped += entry.second.size;
      EXPECT_GE(mapped, 1000 * element);
      EXPECT_LE(mapped, 1000 * element + 2 * page);
    }
}

TEST_F(SpreadMemory, OfOneGpuIsAnAllocation) {
  spread_memory const memory{divide_ranks(100, 1, 32), 48};
  EXPECT_EQ(gpu.allocations.size(), 1u);
  EXPECT_TRUE(gpu.ranges.empty());
}

TEST_F(SpreadMemory, WithoutElementsThereIsNone) {
  for (std::uint32_t const gpus : {1u, 3u}) {
    spread_memory const memory{divide_ranks(100, gpus, 32), 0};
    EXPECT_EQ(memory.data(), nullptr);
  }
}

TEST_F(SpreadMemory, LeavesNothingWhenACallFails) {
  for (CUresult const failure : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN})
    for (std::uint32_t const gpus : {1u, 2u, 5u}) {
      gpu.failure = failure;
      auto const parts = divide_ranks(1000, gpus, 32);
      int const calls_needed = gpus == 1 ? 2 : 3 + 2 * static_cast<int>(gpus);
      for (int calls = 0; calls < calls_needed; ++calls) {
        gpu.calls_that_work = calls;
        EXPECT_THROW((spread_memory{parts, 4 * page}), error) << gpus << " GPUs, call " << calls;
        expect_nothing_left();
      }
      gpu.calls_that_work = calls_needed;
      EXPECT_NO_THROW((spread_memory{parts, 4 * page}));
    }
}

}  // namespace spread_memory_test
}  // namespace quarry::test
