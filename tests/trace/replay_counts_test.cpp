// SPDX-License-Identifier: Apache-2.0
// What replays count, against figures that were computed by hand.
#include "quarry/trace/plan.hpp"
#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace replay_counts_test {

using trace::event;
using trace::event_kind;
using trace::replay_options;
using trace::replay_result;
using trace::strategy;

replay_result replay_of(std::vector<event> const& events, replay_options const& options = {}) {
  trace::replayer memory{options};
  memory.add(events);
  return memory.result();
}
event allocation(std::uint64_t address, bytes size) { return {.address = address, .size = size}; }
event free_of(std::uint64_t address) {
  return {.address = address, .kind = event_kind::deallocate};
}
event block(event_kind kind, std::uint64_t address, bytes size) {
  return {.address = address, .size = size, .kind = kind};
}

TEST(ReplayCounts, EveryPoolCountsWhatItGranted) {
  for (trace::strategy_text const& each : trace::strategy_texts()) {
    if (each.needs_plan) continue;
    SCOPED_TRACE(each.name);
    auto const found = replay_of({allocation(512, 100), allocation(1024, 300), free_of(512)},
                                 {.placement = trace::strategy_named(each.name)});
    EXPECT_GE(found.pool.granted, 300u);
    EXPECT_LE(found.pool.granted, 512u);
    EXPECT_GE(found.pool.peak_granted, 400u);
    EXPECT_LE(found.pool.peak_granted, 1024u);
  }
}

TEST(ReplayCounts, ThePeakOfPlacesAndFallbackIsOfOneMoment) {
  std::vector<event> const planned{allocation(512, 10_KiB), free_of(512)};
  plan const served = trace::make_plan(planned, {});
  // 10 KiB lie in the plan, then 20 KiB in the fallback: never both.
  std::vector<event> events = planned;
  events.push_back(allocation(1024, 20_KiB));
  for (strategy const placement : {strategy::planned, strategy::planned_streams}) {
    SCOPED_TRACE(name_of(placement));
    auto const found = replay_of(events, {.placement = placement, .plan = &served});
    EXPECT_EQ(found.plan->planned, 1u);
    EXPECT_EQ(found.plan->unplanned, 1u);
    EXPECT_GE(found.pool.peak_granted, 20_KiB);
    EXPECT_LT(found.pool.peak_granted, 30_KiB);
  }
}

TEST(ReplayCounts, RecordedBlocksFromBeforeTheRecordingCount) {
  // 100 KiB are older than the recording, which says so only when they are returned.
  std::vector<event> const events{
      block(event_kind::reserve, 4096, 50_KiB), block(event_kind::unreserve, 4096, 50_KiB),
      block(event_kind::unreserve, 1 << 20, 100_KiB), block(event_kind::reserve, 4096, 60_KiB)};
  EXPECT_EQ(replay_of(events).recorded_peak_reserved, 150_KiB);
}

}  // namespace replay_counts_test
}  // namespace quarry::test
