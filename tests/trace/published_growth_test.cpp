// SPDX-License-Identifier: Apache-2.0
// The measured results of Umpire's heuristics on one trace, in its version of 2021 (the poster's
// version) and its version of 2024-10.
#include "trace/published_growth.hpp"

#include "host/pools/simulation_trace.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "trace/published_rows.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace published_growth_test {

using namespace quarry::literals;
using trace::heuristic_rules;
using arena = chunk_arena<oldest_best_fit>;
using growth = trace::published_growth<simulated_resource, arena>;

constexpr pool_options small_blocks(heuristic const& rule) {
  return {.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .coalesce = rule};
}
template <class Pool>
pool_counts run(std::vector<trace_step> const& steps, Pool& source) {
  std::vector<void*> pointers;
  for (auto const& each : steps) {
    if (each.is_allocation) {
      pointers.push_back(source.allocate(each.size));
    } else {
      EXPECT_TRUE(source.deallocate(pointers[each.id]));
    }
  }
  EXPECT_TRUE(source.audit().empty());
  return source.counts();
}
pool_counts run(std::vector<trace_step> const& steps, trace::replay_heuristic const& rule) {
  auto const options = small_blocks(rule.value);
  if (rule.rules == heuristic_rules::quarry) {
    pool<simulated_resource, arena> source{simulated_resource{}, options};
    return run(steps, source);
  }
  pool<simulated_resource, arena, growth> source{simulated_resource{}, options, rule.rules};
  return run(steps, source);
}

TEST(PublishedGrowth, MatchesTheMeasuredResults) {
  simulation_trace const trace{80, 1};
  ASSERT_EQ(trace.steps().size(), 24'728u);
  for (auto const& expected : published_rows) {
    auto const found = run(trace.steps(), expected.rule);
    EXPECT_EQ(found.peak_allocated, published_peak_allocated);
    EXPECT_EQ(found.coalesces, expected.coalesces);
    EXPECT_EQ(found.peak_reserved, expected.peak_reserved);
    EXPECT_EQ(found.blocks_allocated, expected.blocks_allocated);
    EXPECT_EQ(found.blocks_returned, expected.blocks_returned);
    ASSERT_FALSE(HasFailure()) << "row " << &expected - published_rows;
  }
}

TEST(PublishedGrowth, EndsEvenIfOnlyAPartOfThePoolIsReleasable) {
  simulation_trace const trace{20, 3};
  for (std::uint32_t const share : {1u, 50u, 75u, 90u, 99u}) {
    for (auto const& each :
         {percent(share), percent(share).to_high_water(), percent(share).before_growth()}) {
      for (auto const rules :
           {heuristic_rules::poster_2022, heuristic_rules::umpire_2024, heuristic_rules::quarry}) {
        auto const found = run(trace.steps(), {each, rules});
        EXPECT_EQ(found.allocated, 0u);
        EXPECT_EQ(found.allocations, found.deallocations);
      }
    }
  }
}

/// A growth whose pool has three blocks of 1 MiB, of which `free` are empty.
struct three_blocks {
  growth memory;
  three_blocks(heuristic const& rule, heuristic_rules rules, int free)
      : memory{simulated_resource{}, checked(small_blocks(rule)), rules} {
    std::uint64_t bases[3];
    for (auto& base : bases) {
      base = memory.grow({1_MiB, 1_MiB});
      memory.count_allocation(1_MiB - 1000);
    }
    for (int i = 0; i < free; ++i) (void)memory.arena().deallocate(bases[i]);
  }
};

TEST(PublishedGrowth, OfThePosterNeedsMoreThanNBlocks) {
  for (std::uint32_t n = 0; n <= 3; ++n) {
    for (int free = 0; free <= 3; ++free) {
      three_blocks poster{blocks(n), heuristic_rules::poster_2022, free};
      three_blocks release{blocks(n), heuristic_rules::umpire_2024, free};
      EXPECT_EQ(poster.memory.wanted(), static_cast<std::uint32_t>(free) > n ? 3_MiB : 0);
      EXPECT_EQ(release.memory.wanted(), static_cast<std::uint32_t>(free) >= n ? 3_MiB : 0);
    }
  }
}

TEST(PublishedGrowth, OfThePosterCountsNoShareOfOneFreeChunk) {
  EXPECT_EQ(three_blocks(percent(30), heuristic_rules::poster_2022, 1).memory.wanted(), 0u);
  EXPECT_EQ(three_blocks(percent(30), heuristic_rules::umpire_2024, 1).memory.wanted(), 3_MiB);
  EXPECT_EQ(three_blocks(percent(30), heuristic_rules::poster_2022, 2).memory.wanted(), 3_MiB);
}

TEST(PublishedGrowth, OfThePosterAimsAtThePeakOfTheRequestedBytes) {
  auto const rule = blocks(1).to_high_water();
  EXPECT_EQ(three_blocks(rule, heuristic_rules::poster_2022, 2).memory.wanted(), 3_MiB - 3000);
  EXPECT_EQ(three_blocks(rule, heuristic_rules::umpire_2024, 2).memory.wanted(), 3_MiB);
}

TEST(PublishedGrowth, AsksAUsersRuleWithTheTrueState) {
  pool_state seen;
  auto const rule = [&](pool_state const& state) {
    seen = state;
    return bytes{7};
  };
  three_blocks tested{heuristic::by_rule(rule), heuristic_rules::poster_2022, 1};
  EXPECT_EQ(tested.memory.wanted(), 7u);
  EXPECT_EQ(seen.releasable_blocks, 1u);
  EXPECT_EQ(seen.peak_granted, 3_MiB);
}

TEST(PublishedGrowth, IsRefusedWithARoutingTableAndInAPlansFallback) {
  routing_table const routes{{route{.pool = 1}}};
  trace::replay_options options{
      .pool = {.coalesce = blocks(2)}, .rules = heuristic_rules::umpire_2024, .routing = &routes};
  EXPECT_THROW((trace::replayer{options}), bad_argument);
  options.routing = nullptr;
  options.placement = trace::strategy::planned;
  EXPECT_THROW((trace::replayer{options}), bad_argument);
  options.placement = trace::strategy::streams;
  EXPECT_NO_THROW((trace::replayer{options})) << "streams have no heuristic";
}

}  // namespace published_growth_test
}  // namespace quarry::test
