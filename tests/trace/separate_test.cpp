// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/separate.hpp"

#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace quarry::trace {
namespace separate_test {

/// Makes traces.
class program {
 public:
  std::uint64_t allocate(bytes size, char const* call_site) {
    next_ += 1 << 20;
    events.push_back({.time = events.size(),
                      .address = next_,
                      .size = size,
                      .call_site = call_sites.number(call_site)});
    return next_;
  }
  void deallocate(std::uint64_t address) {
    events.push_back({.time = events.size(), .address = address, .kind = event_kind::deallocate});
  }

  void begin_phase(char const* name) {
    events.push_back(
        {.time = events.size(), .call_site = call_sites.number(name), .kind = event_kind::phase});
  }

  std::vector<event> events;
  name_table call_sites;

 private:
  std::uint64_t next_ = 0;
};

/// Permanent allocations of 600 B from "keep", temporary ones of 100 B and 900 B from "work".
program two_kinds() {
  program made;
  for (int i = 0; i < 50; ++i) {
    (void)made.allocate(600, "keep");
    auto const a = made.allocate(100, "work");
    auto const b = made.allocate(900, "work");
    made.deallocate(a);
    made.deallocate(b);
  }
  return made;
}

TEST(Separate, LearnsWhichCallSitesAreTemporary) {
  program const made = two_kinds();
  auto const table =
      separate(made.events, made.call_sites, {.key = route_key::call_site, .temporary_events = 10});
  EXPECT_EQ(table.pools(), 2u);
  EXPECT_EQ(table.pool_for(5, "work"), 1u);
  EXPECT_EQ(table.pool_for(5, "keep"), 0u);
  EXPECT_EQ(table.pool_for(5, "unknown"), 0u);
}

TEST(Separate, LearnsWhichSizesAreTemporary) {
  program const made = two_kinds();
  auto const table =
      separate(made.events, made.call_sites, {.key = route_key::size, .temporary_events = 10});
  EXPECT_EQ(table.pool_for(64), 1u);
  EXPECT_EQ(table.pool_for(127), 1u);
  EXPECT_EQ(table.pool_for(128), 0u);
  EXPECT_EQ(table.pool_for(600), 0u) << "of 512 to 1,023 bytes, 50 of 100 are temporary";
}

TEST(Separate, AnUnknownCallSiteMakesNoRouteForAllCallSites) {
  program made;
  for (int i = 0; i < 50; ++i) {
    (void)made.allocate(100, "keep");
    made.deallocate(made.allocate(100, ""));
  }
  for (event& each : made.events)  // numbers without names are unknown, too
    if (each.call_site == 0 && (each.address >> 20) % 4 == 0) each.call_site = 1000;
  for (route_key const key : {route_key::call_site, route_key::call_site_and_size}) {
    auto const table = separate(made.events, made.call_sites, {.key = key, .temporary_events = 10});
    EXPECT_EQ(table.pool_for(100, "keep"), 0u);
    EXPECT_TRUE(table.routes().empty());
  }
}

TEST(Separate, NamesThatARouteCannotHaveMakeNoRoute) {
  program made;
  (void)made.call_sites.add("");  // an entry of its own, as some traces have
  std::uint32_t const nameless = 1;
  for (int i = 0; i < 50; ++i) {
    (void)made.allocate(100, "keep");
    made.deallocate(made.allocate(100, "two\nlines"));
    auto const address = made.allocate(100, "");
    made.events.back().call_site = nameless;
    made.deallocate(address);
  }
  for (route_key const key : all_route_keys) {
    auto const table = separate(made.events, made.call_sites, {.key = key, .temporary_events = 10});
    if (key == route_key::size) continue;
    EXPECT_EQ(table.pools(), 1u) << name_of(key);
  }
  made.begin_phase("two\nlines");
  made.deallocate(made.allocate(100, "keep"));
  auto const table =
      separate(made.events, made.call_sites, {.key = route_key::phase, .temporary_events = 10});
  EXPECT_EQ(table.pools(), 1u);
}

TEST(Separate, LearnsBySizeWithinACallSite) {
  program const made = two_kinds();
  auto const table = separate(made.events, made.call_sites,
                              {.key = route_key::call_site_and_size, .temporary_events = 10});
  EXPECT_EQ(table.pool_for(600, "work"), 1u);
  EXPECT_EQ(table.pool_for(600, "keep"), 0u);
  EXPECT_EQ(table.pool_for(300, "work"), 0u);
}

TEST(Separate, LearnsWhichPhasesAreTemporary) {
  program made;
  for (int step = 0; step < 20; ++step) {
    (void)made.allocate(64, "any");  // the first one is before any phase
    made.begin_phase("solve");
    for (int i = 0; i < 5; ++i) made.deallocate(made.allocate(64, "any"));
    made.begin_phase("refine");
    (void)made.allocate(64, "any");
  }
  for (auto const key : {route_key::phase, route_key::phase_and_size}) {
    auto const table = separate(made.events, made.call_sites, {.key = key, .temporary_events = 10});
    EXPECT_EQ(table.pool_for(64, "any", "solve"), 1u);
    EXPECT_EQ(table.pool_for(64, "any", "refine"), 0u);
    EXPECT_EQ(table.pool_for(64), 0u);
    EXPECT_EQ(table.pool_for(4096, "any", "solve"), key == route_key::phase ? 1u : 0u);
    replayer memory{{.routing = &table, .call_sites = &made.call_sites}};
    memory.add(made.events);
    EXPECT_EQ(memory.result().pool.blocks_allocated, 2u) << "each pool has a block";
  }
}

TEST(Separate, LearnsTheSameFromBatchesAsFromAWhole) {
  program const made = two_kinds();
  for (std::size_t const size : {1u, 7u, 64u}) {
    separation_learner learner{10};
    for (std::size_t first = 0; first < made.events.size(); first += size)
      learner.add(
          std::span{made.events}.subspan(first, std::min(size, made.events.size() - first)));
    for (route_key const key : all_route_keys) {
      auto const whole =
          separate(made.events, made.call_sites, {.key = key, .temporary_events = 10});
      EXPECT_EQ(learner.table(key, made.call_sites).routes(), whole.routes());
    }
  }
}

TEST(Separate, ATraceWithoutTemporaryAllocationsNeedsOnePool) {
  program const made = two_kinds();
  EXPECT_EQ(separate(made.events, made.call_sites, {.temporary_events = 0}).pools(), 1u);
  EXPECT_EQ(separate({}, made.call_sites, {}).pools(), 1u);
}

TEST(Separate, RoutedReplayKeepsLongLivedAllocationsOutOfTheBlocksOfTemporaryOnes) {
  // Permanent allocations between temporary ones hold each block of a single pool in use.
  program made;
  std::vector<std::uint64_t> temporary;
  for (int phase = 0; phase < 8; ++phase) {
    for (int i = 0; i < 2000; ++i) {
      temporary.push_back(made.allocate(8000 + 16u * static_cast<bytes>(i % 7), "work"));
      if (i % 100 == 0) (void)made.allocate(8000, "keep");
    }
    for (auto const address : temporary) made.deallocate(address);
    temporary.clear();
    // larger than what is between the permanent allocations
    made.deallocate(made.allocate(12 << 20, "work"));
  }
  auto const table = separate(made.events, made.call_sites,
                              {.key = route_key::call_site, .temporary_events = 5000});
  auto const peak = [&](routing_table const* routing) {
    replayer memory{{.placement = strategy::lowest_best_fit,
                     .pool = {.first_block = 1 << 20, .next_block = 1 << 20, .growth_percent = 0},
                     .routing = routing,
                     .call_sites = &made.call_sites}};
    memory.add(made.events);
    EXPECT_TRUE(memory.result().fits());
    EXPECT_EQ(memory.result().unknown_frees, 0u);
    return memory.result().pool.peak_reserved;
  };
  EXPECT_LT(peak(&table), peak(nullptr));
}

}  // namespace separate_test
}  // namespace quarry::trace
