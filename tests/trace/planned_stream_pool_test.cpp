// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_stream_pool.hpp"

#include "host/pools/simulated_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace {

using namespace quarry;
using namespace quarry::trace;
using quarry::bytes;
using quarry::host_resource;
using quarry::simulated_resource;
using quarry::test::simulated_streams;
using stream_tested_pool = planned_stream_pool<simulated_resource, simulated_streams>;

/// Two places at one offset: the second allocation begins when the first one is freed.
plan one_place_twice() {
  return {.size = 256, .period_begin = 0, .allocations = {{256, 0, 1}, {256, 0, 2}}};
}
planned_stream_pool_options small_stream_blocks() {
  return {.fallback = {.first_block = 4096, .next_block = 4096}};
}

TEST(PlannedStreamPool, ServesOneStreamWithoutEvents) {
  stream_tested_pool tested{simulated_resource{}, simulated_streams{}, one_place_twice()};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(tested.deallocate(tested.allocate(256, 1), 1));
  EXPECT_EQ(tested.counts().planned, 10u);
  EXPECT_EQ(tested.counts().events + tested.counts().waits, 0u);
  EXPECT_EQ(tested.counts().reserved, 256u);
}

TEST(PlannedStreamPool, LetsAStreamWaitBeforeItUsesThePlaceOfAnotherStream) {
  simulated_streams streams;
  stream_tested_pool tested{simulated_resource{}, streams, one_place_twice(),
                            small_stream_blocks()};
  void* const first = tested.allocate(256, 1);
  (void)tested.deallocate(first, 1);  // no event: there is no other stream yet
  void* const second = tested.allocate(256, 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(tested.counts().occupied, 1u);
  (void)tested.deallocate(second, 2);

  EXPECT_EQ(tested.allocate(256, 1), first);
  auto const time = streams.world().tick(1);
  (void)tested.deallocate(first, 1);
  EXPECT_FALSE(streams.world().is_before(1, time, 2));
  EXPECT_EQ(tested.allocate(256, 2), first);
  EXPECT_TRUE(streams.world().is_before(1, time, 2));
  EXPECT_EQ(tested.counts().waits, 1u);
}

TEST(PlannedStreamPool, IsAStrategyOfReplays) {
  plan const served = one_place_twice();
  for (std::uint32_t const second_stream : {1u, 2u}) {
    SCOPED_TRACE(second_stream);
    quarry::trace::replayer tested{
        {.placement = quarry::trace::strategy::planned_streams, .plan = &served}};
    using quarry::trace::event_kind;
    tested.add(std::vector<quarry::trace::event>{
        {.address = 512, .size = 256, .stream = 1, .kind = event_kind::allocate},
        {.address = 512, .stream = 1, .kind = event_kind::deallocate},
        {.address = 512, .size = 256, .stream = second_stream, .kind = event_kind::allocate}});
    auto const found = tested.result();
    ASSERT_TRUE(found.plan);
    // the first free records no event: there is no other stream yet
    EXPECT_EQ(found.plan->occupied, second_stream == 2 ? 1u : 0u);
    EXPECT_EQ(found.plan->planned, second_stream == 2 ? 1u : 2u);
    EXPECT_EQ(found.pool.reserved > served.size, second_stream == 2);
    EXPECT_EQ(found.pool.granted, 256u);
  }
}

TEST(PlannedStreamPool, LeavesAPlaceWithItsStreamIfNoEventCanBeRecorded) {
  simulated_streams streams;
  stream_tested_pool tested{simulated_resource{}, streams, one_place_twice(),
                            small_stream_blocks()};
  (void)tested.allocate(1000, 2);  // makes stream 2 known to the fallback only
  auto const failing = streams.world().never_records;
  void* const first = tested.allocate(256, failing);
  (void)tested.deallocate(first, failing);
  EXPECT_NE(tested.allocate(256, 2), first);
  EXPECT_EQ(tested.allocate(256, failing), first);
  (void)tested.deallocate(first, failing);
  tested.release();  // waits for all streams
  EXPECT_EQ(tested.allocate(256, 2), first);
}

TEST(PlannedStreamPool, WaitsOnTheHostIfAStreamCannotWait) {
  simulated_streams streams;
  stream_tested_pool tested{simulated_resource{}, streams, one_place_twice(),
                            small_stream_blocks()};
  for (std::uint32_t const stream : {1u, 2u})
    (void)tested.deallocate(tested.allocate(256, stream), stream);
  void* const place = tested.allocate(256, 1);
  auto const time = streams.world().tick(1);
  (void)tested.deallocate(place, 1);
  streams.world().wait_fails_in = 0;
  EXPECT_EQ(tested.allocate(256, 2), place);
  EXPECT_TRUE(streams.world().is_before(1, time, 2));
}

TEST(PlannedStreamPool, RefusesWhatAPlannedPoolRefuses) {
  auto options = small_stream_blocks();
  options.fallback.max_bytes = 255;
  EXPECT_THROW((stream_tested_pool{simulated_resource{}, {}, one_place_twice(), options}),
               quarry::out_of_memory);
  options.fallback.max_bytes = 8192;
  stream_tested_pool tested{simulated_resource{}, {}, one_place_twice(), options};
  EXPECT_THROW((void)tested.allocate(16, 24, 1), quarry::bad_argument);
  EXPECT_THROW((void)tested.allocate(bytes{1} << 50, 1), quarry::out_of_memory);
  auto* const place = static_cast<char*>(tested.allocate(256, 1));
  EXPECT_FALSE(tested.deallocate(place + 16, 1));
  EXPECT_TRUE(tested.deallocate(place, simulated_streams::not_a_stream));
  EXPECT_FALSE(tested.deallocate(place, 1));
  EXPECT_NE(tested.allocate(256, 1), place);  // no stream owns the place
  EXPECT_EQ(tested.counts().invalid_frees, 2u);
}

TEST(PlannedStreamPool, IsKnownToTheRegistry) {
  planned_stream_pool<host_resource, simulated_streams> tested{
      host_resource{}, {}, one_place_twice(), {.fallback = {.name = "model"}}};
  void* const place = tested.allocate(256, 1);
  void* const other = tested.allocate(999, 1);
  EXPECT_TRUE(tested.label(place, "weights"));
  EXPECT_EQ(quarry::registry::find(place)->allocator, tested.id());
  EXPECT_EQ(quarry::registry::find(other)->allocator, tested.fallback_id());
  EXPECT_EQ(quarry::registry::label_of(place)->name, "weights");
}

/// Runs random programs on some streams, which end and begin. The model has each free: its bytes,
/// and a moment of its stream's work. No allocation may get bytes of a free that does not precede
/// the next work of its stream.
void run_on_streams(unsigned seed) {
  std::mt19937 random{seed};
  struct model_free {
    std::uint64_t begin, end;
    std::uint32_t stream;
    std::uint64_t time;
  };
  struct model_allocation {
    bytes size;
    std::uint32_t handle;
  };
  plan served{.size = 8192};
  auto const count = 20 + random() % 60;
  while (served.allocations.size() < count) {
    bytes const size = 256 * (1 + random() % 4), offset = 256 * (random() % 28);
    served.allocations.push_back({size, offset, served.allocations.size() + 1});
  }
  simulated_streams streams;
  auto& world = streams.world();
  world.random.seed(seed);
  world.done_percent = static_cast<unsigned>(random() % 50);
  stream_tested_pool tested{simulated_resource{}, streams, served, small_stream_blocks()};
  std::map<std::uint64_t, model_allocation> live;
  std::vector<model_free> frees;
  std::size_t next = 0;
  auto const handles = static_cast<std::uint32_t>(1 + random() % 4);
  for (int step = 0; step < 600; ++step) {
    auto const handle = static_cast<std::uint32_t>(1 + random() % handles);
    if (random() % 2 == 0 && !live.empty()) {
      auto const victim = std::next(live.begin(), std::ptrdiff_t(random() % live.size()));
      auto const [base, allocation] = *victim;
      // mostly its own stream; another stream first waits for that one
      std::uint32_t const freeing = random() % 8 == 0 ? handle : allocation.handle;
      if (freeing != allocation.handle) {
        auto event = streams.record(allocation.handle);
        streams.wait(freeing, event);
        streams.drop(event);
      }
      if (random() % 40 == 0) world.record_fails_in = 0;
      frees.push_back({base, base + allocation.size, world.identity(freeing), world.tick(freeing)});
      ASSERT_TRUE(tested.deallocate(reinterpret_cast<void*>(base), freeing));
      world.record_fails_in = -1;
      live.erase(victim);
      continue;
    }
    bool const follows = random() % 10 != 0;
    bytes const size = follows ? served.allocations[next++ % count].size : 1 + random() % 2000;
    if (random() % 40 == 0) world.wait_fails_in = 0;
    auto const base = reinterpret_cast<std::uint64_t>(tested.allocate(size, handle));
    world.wait_fails_in = -1;
    auto const above = live.lower_bound(base);
    ASSERT_TRUE(above == live.end() || base + size <= above->first);
    ASSERT_TRUE(above == live.begin() ||
                std::prev(above)->first + std::prev(above)->second.size <= base);
    for (auto const& each : frees) {
      if (each.begin < base + size && base < each.end) {
        ASSERT_TRUE(world.is_before(each.stream, each.time, handle))
            << "stream " << handle << " gets bytes that stream " << each.stream << " may use";
      }
    }
    live[base] = {size, handle};
    if (random() % 100 == 0) tested.release();
    if (random() % 50 == 0) tested.restart();
    bool const is_idle = std::ranges::none_of(
        live, [&](auto const& entry) { return entry.second.handle == handle; });
    if (is_idle && random() % 4 == 0) {
      world.destroy(handle);
      world.create(handle);
    }
  }
  auto const counts = tested.counts();
  EXPECT_GT(counts.planned, 0u);
  EXPECT_EQ(counts.allocations_in_use, live.size());
  EXPECT_EQ(world.misuses, 0u);
  ASSERT_EQ(tested.audit(), std::vector<std::string>{});
}

TEST(PlannedStreamPool, GivesNoStreamWhatTheWorkOfAnotherMayUse) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    run_on_streams(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
