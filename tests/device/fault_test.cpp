// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/fault.hpp"

#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace quarry {
namespace fault_test {

fault out_of_memory(bytes size) {
  fault result;
  result.kind = fault_kind::out_of_memory;
  result.size = size;
  return result;
}

std::uint64_t count_of(fault_log const& log, fault_kind kind) {
  return log.counts[static_cast<std::uint32_t>(kind)];
}

TEST(FaultLog, KeepsTheFirstFaultAndItsLane) {
  QUARRY_TEST_USES_FIBERS();
  fault_log log{};
  simt::launch_fibers({3, 40}, {}, [&] {
    auto const place = simt::this_place();
    if (place.block == 2 && place.thread == 33) log.record(out_of_memory(77));
  });
  EXPECT_EQ(log.ready, 1u);
  EXPECT_EQ(log.first.kind, fault_kind::out_of_memory);
  EXPECT_EQ(log.first.size, 77u);
  EXPECT_EQ(log.first.block, 2u);
  EXPECT_EQ(log.first.thread, 33u);
}

TEST(FaultLog, OnlyCountsLaterFaultsOfEachKind) {
  fault_log log{};
  log.record(out_of_memory(1));
  log.record(out_of_memory(2));
  fault other;
  other.kind = fault_kind::double_free;
  log.record(other);
  EXPECT_EQ(count_of(log, fault_kind::out_of_memory), 2u);
  EXPECT_EQ(count_of(log, fault_kind::double_free), 1u);
  EXPECT_EQ(count_of(log, fault_kind::foreign_pointer), 0u);
  EXPECT_EQ(log.first.size, 1u);
}

TEST(FaultLog, CountsEachLaneOfAGroupThatReportsAFault) {
  fault_log log{};
  log.record(out_of_memory(1), 32);
  log.record(out_of_memory(2), 5);
  log.record(out_of_memory(3));
  EXPECT_EQ(count_of(log, fault_kind::out_of_memory), 38u);
  EXPECT_EQ(log.first.size, 1u);
}

TEST(FaultLog, IsNotReadyBeforeAFault) {
  fault_log const log{};
  EXPECT_EQ(log.ready, 0u);
  EXPECT_EQ(log.first.kind, fault_kind::none);
}

TEST(FaultLog, OneOfManyThreadsWritesTheFirstFault) {
  fault_log log{};
  simt::launch_threads({8, 4}, 4, [&] {
    auto const place = simt::this_place();
    log.record(out_of_memory(1000 + place.rank()));
  });
  EXPECT_EQ(count_of(log, fault_kind::out_of_memory), 32u);
  EXPECT_EQ(log.first.size, 1000u + log.first.block * 4 + log.first.thread)
      << "the log mixes two faults";
}

TEST(FaultLog, OneLaneWritesTheFirstFaultInEveryInterleaving) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    fault_log log{};
    simt::launch_fibers({2, 8}, {.seed = seed, .switches = 128},
                        [&] { log.record(out_of_memory(1000 + simt::this_place().rank())); });
    ASSERT_EQ(count_of(log, fault_kind::out_of_memory), 16u) << "seed " << seed;
    ASSERT_EQ(log.first.size, 1000u + log.first.block * 8 + log.first.thread) << "seed " << seed;
  }
}

}  // namespace fault_test
}  // namespace quarry
