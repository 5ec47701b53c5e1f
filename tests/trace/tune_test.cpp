// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/tune.hpp"

#include "host/pools/published_rows.hpp"
#include "host/pools/simulation_trace.hpp"
#include "quarry/trace/reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace quarry::trace {
namespace tune_test {

/// Reads events from memory.
class memory_reader final : public reader {
 public:
  explicit memory_reader(std::vector<event> events) : events_{std::move(events)} {}
  std::size_t read(std::span<event> target) override {
    std::size_t const count = std::min(target.size(), events_.size() - next_);
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(next_), count, target.begin());
    next_ += count;
    return count;
  }
  format file_format() const override { return format::text; }

 private:
  std::vector<event> events_;
  std::size_t next_ = 0;
};

std::vector<event> simulation() {
  std::vector<event> events;
  test::simulation_trace const trace{80, 1};
  for (auto const& step : trace.steps()) {
    events.push_back({.time = events.size(),
                      .address = step.id + 1,
                      .size = step.size,
                      .kind = step.is_allocation ? event_kind::allocate : event_kind::deallocate});
  }
  return events;
}

tune_result tuned(std::vector<event> events, tune_options const& options) {
  memory_reader trace{std::move(events)};
  return tune(trace, options);
}

/// The outcome of the heuristic, with blocks of 1 MiB. Null if it is no candidate.
tune_outcome const* outcome_of(tune_result const& result, heuristic const& rule) {
  for (auto const& each : result.outcomes) {
    if (each.options.pool.coalesce == rule) return &each;
  }
  return nullptr;
}

/// All settings of both versions of Umpire on the simulation. The modelled time counts the returned
/// blocks.
tune_result all_published() {
  std::vector<replay_options> candidates;
  for (auto const rules : {heuristic_rules::poster_2022, heuristic_rules::umpire_2024}) {
    for (auto const& each : published_candidates(rules)) candidates.push_back(each);
  }
  for (std::uint32_t const share : {50u, 75u, 90u, 100u}) {  // the poster has no such settings
    candidates.push_back(candidates.front());
    candidates.back().pool.coalesce = test::of_2024(test::percent(share).to_high_water());
  }
  return tuned(simulation(),
               {.candidates = candidates, .cost = {.us_per_allocation = 0, .us_per_free = 1}});
}

TEST(Tune, RepeatsEachMeasuredRowOfUmpire) {
  auto const result = all_published();
  EXPECT_EQ(result.peak_allocated, test::published_peak_allocated);
  for (auto const& row : test::published_rows) {
    SCOPED_TRACE(name_of(row.rule));
    auto const* const found = outcome_of(result, row.rule);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->coalesces, row.coalesces);
    EXPECT_EQ(found->peak_reserved, row.peak_reserved);
    EXPECT_EQ(found->upstream_allocations, row.blocks_allocated);
    EXPECT_EQ(found->upstream_us, static_cast<double>(row.blocks_returned));
  }
}

TEST(Tune, EndsTheSettingsThatMakeUmpireCrash) {
  auto const result = all_published();
  auto const* const at_hundred = outcome_of(result, test::of_2021(test::percent(100)));
  ASSERT_NE(at_hundred, nullptr);
  for (auto const& rule : test::crashed_settings) {
    SCOPED_TRACE(name_of(rule));
    auto const* const found = outcome_of(result, rule);
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(found->fits);
    EXPECT_GT(found->coalesces, at_hundred->coalesces);
    EXPECT_LE(found->peak_reserved, at_hundred->peak_reserved);
  }
}

TEST(Tune, OutcomesDoNotDependOnTheNumberOfThreads) {
  tune_options options{.candidates = published_candidates(heuristic_rules::quarry), .threads = 1};
  auto const one = tuned(simulation(), options);
  options.threads = 7;
  auto const seven = tuned(simulation(), options);
  ASSERT_EQ(one.outcomes.size(), seven.outcomes.size());
  for (std::size_t i = 0; i < one.outcomes.size(); ++i) {
    EXPECT_EQ(one.outcomes[i].peak_reserved, seven.outcomes[i].peak_reserved);
    EXPECT_EQ(one.outcomes[i].coalesces, seven.outcomes[i].coalesces);
    EXPECT_EQ(one.outcomes[i].upstream_us, seven.outcomes[i].upstream_us);
    EXPECT_EQ(one.outcomes[i].is_on_front, seven.outcomes[i].is_on_front);
  }
  EXPECT_EQ(one.best, seven.best);
}

TEST(Tune, NoOutcomeIsBetterThanOneOnTheFront) {
  auto const result =
      tuned(simulation(), {.candidates = published_candidates(heuristic_rules::umpire_2024)});
  std::size_t on_front = 0;
  for (auto const& front : result.outcomes) {
    if (!front.is_on_front) continue;
    ++on_front;
    for (auto const& other : result.outcomes) {
      bool const is_better = other.peak_reserved < front.peak_reserved &&
                             other.coalesces <= front.coalesces &&
                             other.upstream_us <= front.upstream_us;
      EXPECT_FALSE(is_better) << name_of(other.options.pool.coalesce);
    }
  }
  EXPECT_GT(on_front, 1u);
  EXPECT_TRUE(result.outcomes[result.best].is_on_front);
}

TEST(Tune, ThePriceOfMemoryMovesTheBestOutcome) {
  auto const best = [](double us_per_gib) {
    auto const result = tuned(
        simulation(),
        {.candidates = published_candidates(heuristic_rules::quarry), .us_per_gib = us_per_gib});
    return result.outcomes[result.best];
  };
  EXPECT_LT(best(1e9).peak_reserved, best(0).peak_reserved);
  EXPECT_LT(best(0).upstream_us, best(1e9).upstream_us);
}

TEST(Tune, SaysThatNothingFits) {
  auto const result =
      tuned(simulation(),
            {.candidates = published_candidates(heuristic_rules::quarry), .capacity = 1 << 20});
  EXPECT_EQ(result.best, result.outcomes.size());
  for (auto const& each : result.outcomes) {
    EXPECT_FALSE(each.fits);
    EXPECT_FALSE(each.is_on_front);
  }
}

TEST(Tune, ReportsProgressAndPassesExceptionsOn) {
  std::uint64_t last = 0;
  tune_options options{.candidates = published_candidates(heuristic_rules::quarry)};
  options.progress = [&](std::uint64_t events) {
    EXPECT_GT(events, last);
    last = events;
  };
  EXPECT_EQ(tuned(simulation(), options).events, last);
  options.progress = [](std::uint64_t) { throw std::runtime_error{"stop"}; };
  EXPECT_THROW((void)tuned(simulation(), options), std::runtime_error);
  options.candidates[3].pool.alignment = 3;
  EXPECT_THROW((void)tuned(simulation(), options), bad_argument);
}

TEST(Tune, CandidatesAreDistinctAndTheirCodeNamesThem) {
  auto const all = all_candidates();
  EXPECT_GT(all.size(), 200u);
  std::vector<std::string> texts;
  for (auto const& each : all) texts.push_back(code_for(each));
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_NE(code_for(all.back()).find("stitched_pool"), std::string::npos);
  EXPECT_EQ(sized_candidates(1'000'000'000).size(), 20u);
}

}  // namespace tune_test
}  // namespace quarry::trace
