// SPDX-License-Identifier: Apache-2.0
// The measured results of Umpire's heuristics on one trace, in its version of 2021 (the poster's
// version) and its version of 2024-10.
#include "host/pools/published_rows.hpp"
#include "host/pools/simulation_trace.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace published_heuristics_test {

using namespace quarry::literals;

template <class Strategy>
pool_counts run(std::vector<trace_step> const& steps, pool_options const& options) {
  pool<simulated_resource, Strategy> source{simulated_resource{}, options};
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

constexpr pool_options small_blocks(heuristic const& rule) {
  return {.first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .coalesce = rule};
}

TEST(PublishedHeuristics, MatchTheMeasuredResults) {
  simulation_trace const trace{80, 1};
  ASSERT_EQ(trace.steps().size(), 24'728u);
  for (auto const& expected : published_rows) {
    auto const found =
        run<chunk_arena<oldest_best_fit>>(trace.steps(), small_blocks(expected.rule));
    EXPECT_EQ(found.peak_allocated, published_peak_allocated);
    EXPECT_EQ(found.coalesces, expected.coalesces);
    EXPECT_EQ(found.peak_reserved, expected.peak_reserved);
    EXPECT_EQ(found.blocks_allocated, expected.blocks_allocated);
    EXPECT_EQ(found.blocks_returned, expected.blocks_returned);
    ASSERT_FALSE(HasFailure()) << "row " << &expected - published_rows;
  }
}

TEST(PublishedHeuristics, TerminateEvenIfOnlyAPartOfThePoolIsReleasable) {
  simulation_trace const trace{20, 3};
  for (std::uint32_t const share : {1u, 50u, 75u, 90u, 99u}) {
    for (auto const& each :
         {percent(share), percent(share).to_high_water(), percent(share).before_growth()}) {
      for (auto const rules :
           {heuristic_rules::poster_2022, heuristic_rules::umpire_2024, heuristic_rules::quarry}) {
        auto const found =
            run<chunk_arena<oldest_best_fit>>(trace.steps(), small_blocks(each.with_rules(rules)));
        EXPECT_EQ(found.allocated, 0u);
        EXPECT_EQ(found.allocations, found.deallocations);
      }
    }
  }
}

}  // namespace published_heuristics_test
}  // namespace quarry::test
