// SPDX-License-Identifier: Apache-2.0
// Recorded programs that deviate from their plans.
#include "quarry/host/pools/planned_pool.hpp"
#include "quarry/trace/plan.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

namespace {

using namespace quarry;
using namespace quarry::trace;
using quarry::bytes;

std::vector<event> recorded_events(char const* name) {
  auto const trace = open_trace(std::string{QUARRY_DATA "/"} + name);
  std::vector<event> result, batch(4096);
  while (auto const count = trace->read(batch))
    result.insert(result.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
  return result;
}

/// A program that deviates: of `percent` percent of its allocations, a third is missing, a third
/// has another size, and a third comes with one more allocation, which lives for 50 events.
std::vector<event> deviating(std::vector<event> const& recorded, unsigned percent,
                             std::mt19937& random) {
  constexpr std::uint64_t added = std::uint64_t{1} << 50;  // addresses that no trace has
  std::vector<event> result;
  std::set<std::uint64_t> missing;
  std::deque<std::pair<std::size_t, event>> frees;
  std::uint64_t next = added;
  for (event each : recorded) {
    while (!frees.empty() && frees.front().first <= result.size()) {
      result.push_back(frees.front().second);
      frees.pop_front();
    }
    if (each.kind == event_kind::deallocate && missing.erase(each.address) != 0) continue;
    if (each.kind == event_kind::allocate && random() % 100 < percent) {
      switch (random() % 3) {
        case 0:
          missing.insert(each.address);
          continue;
        case 1:
          each.size = 1 + random() % (2 * each.size + 1000);
          break;
        default:
          next += 4096;
          result.push_back({.address = next, .size = 1 + random() % 100'000});
          frees.emplace_back(result.size() + 50,
                             event{.address = next, .kind = event_kind::deallocate});
      }
    }
    result.push_back(each);
  }
  return result;
}

/// Replays a program with a plan. All requests must be served, by the plan or by the fallback.
plan_use use_of(std::vector<event> const& program, plan const& served) {
  replay_options options{.placement = strategy::planned, .max_samples = 2};
  options.plan = &served;
  replayer tested{options};
  tested.add(program);
  auto const result = tested.result();
  EXPECT_TRUE(result.fits());
  EXPECT_EQ(result.pool.invalid_frees, 0u);
  if (!result.plan) {
    ADD_FAILURE() << "the result has no counts of the plan";
    return {};
  }
  plan_use const use = *result.plan;
  EXPECT_EQ(use.planned + use.occupied + use.unplanned, result.pool.allocations);
  EXPECT_EQ(result.pool.peak_reserved, served.size + use.fallback_peak);
  EXPECT_GE(result.pool.peak_reserved, result.pool.peak_allocated);
  return use;
}
double planned_share(plan_use const& use) {
  return double(use.planned) / double(use.planned + use.occupied + use.unplanned);
}

TEST(PlanDeviation, OfSomePercentLeavesMostRequestsToThePlan) {
  for (char const* const name : {"kvcache.pickle.gz", "gnn.pickle.gz"}) {
    SCOPED_TRACE(name);
    auto const program = recorded_events(name);
    auto const served = make_plan(program, {.max_steps = 1});
    EXPECT_EQ(planned_share(use_of(program, served)), 1);
    for (auto const& [percent, least] : {std::pair{1u, 0.95}, std::pair{5u, 0.85}}) {
      SCOPED_TRACE(percent);
      std::mt19937 random{percent};
      EXPECT_GT(planned_share(use_of(deviating(program, percent, random), served)), least);
    }
  }
}

TEST(PlanDeviation, OfThePartThatWasNotRecordedCostsMemoryOnly) {
  for (char const* const name : {"kvcache.pickle.gz", "gnn.pickle.gz"}) {
    SCOPED_TRACE(name);
    auto const program = recorded_events(name);
    std::span const all{program};
    auto const served = make_plan(all.first(all.size() / 2), {.max_steps = 1});
    auto const rest = all.subspan(all.size() / 2);
    (void)use_of({rest.begin(), rest.end()}, served);
  }
}

}  // namespace
