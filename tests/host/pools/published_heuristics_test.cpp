// SPDX-License-Identifier: Apache-2.0
// The measured results of Umpire's heuristics on one trace, in its version of 2021 (the poster's
// version) and its version of 2024-10.
#include "host/pools/simulation_trace.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace published_heuristics_test {

using namespace quarry::literals;

struct row {
  heuristic rule;
  std::uint64_t coalesces;
  bytes peak_reserved;
  std::uint64_t blocks_allocated, blocks_returned;
};

constexpr heuristic of_2021(heuristic const& rule) {
  return rule.with_rules(heuristic_rules::poster_2022);
}
constexpr heuristic of_2024(heuristic const& rule) {
  return rule.with_rules(heuristic_rules::umpire_2024);
}
constexpr heuristic blocks(std::uint32_t n) { return heuristic::blocks_releasable(n); }
constexpr heuristic percent(std::uint32_t n) { return heuristic::percent_releasable(n); }

constexpr row published[] = {
    {of_2021(percent(100)), 1, 1524738336, 106, 105},
    {of_2021(blocks(2)), 27, 387927744, 110, 108},
    {of_2021(blocks(3)), 19, 394972080, 97, 96},
    {of_2021(blocks(5)), 10, 418714144, 65, 60},
    {of_2021(blocks(7)), 7, 424903680, 59, 56},
    {of_2021(blocks(12)), 3, 402195072, 49, 39},
    {of_2021(blocks(2).to_high_water()), 39, 410380896, 148, 147},
    {of_2021(blocks(3).to_high_water()), 14, 437153952, 106, 104},
    {of_2021(blocks(5).to_high_water()), 12, 487313136, 105, 102},
    {of_2021(blocks(7).to_high_water()), 9, 413095312, 94, 88},
    {of_2021(blocks(12).to_high_water()), 5, 400996800, 82, 78},
    {of_2021(blocks(2).before_growth()), 5, 407453648, 65, 32},
    {of_2021(blocks(3).before_growth()), 5, 397142640, 65, 32},
    {of_2021(blocks(5).before_growth()), 3, 395831808, 58, 24},
    {of_2021(blocks(7).before_growth()), 2, 405024448, 51, 17},
    {of_2021(blocks(12).before_growth()), 1, 398723888, 47, 14},
    {of_2024(percent(100)), 1, 1524738336, 106, 105},
    {of_2024(percent(100).to_high_water()), 1, 1524738336, 106, 105},
    {of_2024(blocks(2)), 50, 419313984, 141, 140},
    {of_2024(blocks(3)), 27, 387927744, 110, 108},
    {of_2024(blocks(5)), 11, 434017344, 77, 75},
    {of_2024(blocks(7)), 6, 396248640, 65, 63},
    {of_2024(blocks(12)), 4, 426054000, 51, 48},
    {of_2024(blocks(2).to_high_water()), 62, 415529680, 205, 204},
    {of_2024(blocks(3).to_high_water()), 22, 412394432, 110, 108},
    {of_2024(blocks(5).to_high_water()), 13, 393541392, 121, 120},
    {of_2024(blocks(7).to_high_water()), 12, 486058240, 128, 126},
    {of_2024(blocks(12).to_high_water()), 5, 393461072, 71, 60},
};

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
  for (auto const& expected : published) {
    auto const found =
        run<chunk_arena<oldest_best_fit>>(trace.steps(), small_blocks(expected.rule));
    EXPECT_EQ(found.peak_allocated, 369'052'815u);
    EXPECT_EQ(found.coalesces, expected.coalesces);
    EXPECT_EQ(found.peak_reserved, expected.peak_reserved);
    EXPECT_EQ(found.blocks_allocated, expected.blocks_allocated);
    EXPECT_EQ(found.blocks_returned, expected.blocks_returned);
    ASSERT_FALSE(HasFailure()) << "row " << &expected - published;
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
