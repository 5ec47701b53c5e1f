// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/tune.hpp"

#include "host/pools/simulation_trace.hpp"
#include "quarry/trace/reader.hpp"
#include "trace/published_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>

namespace quarry::trace {
namespace tune_test {

/// Reads events from memory.
class memory_reader final : public reader {
 public:
  explicit memory_reader(std::vector<event> const& events) : events_{events} {
    for (char const* const name : {"scratch", "weights"}) (void)names_.call_sites.add(name);
  }
  std::size_t read(std::span<event> target) override {
    std::size_t const count = std::min(target.size(), events_.size() - next_);
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(next_), count, target.begin());
    next_ += count;
    return count;
  }
  format file_format() const override { return format::text; }

 private:
  std::vector<event> const& events_;
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

tune_result tuned(std::vector<event> const& events, tune_options const& options) {
  return tune([&] { return std::make_unique<memory_reader>(events); }, options);
}

/// The outcome of the heuristic, with blocks of 1 MiB. Null if it is no candidate.
tune_outcome const* outcome_of(tune_result const& result, replay_heuristic const& rule) {
  for (auto const& each : result.outcomes) {
    if (replay_heuristic{each.options.pool.coalesce, each.options.rules} == rule) return &each;
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
    candidates.push_back(candidates.back());                 // its rules are those of 2024
    candidates.back().pool.coalesce = test::percent(share).to_high_water();
  }
  return tuned(simulation(), {.candidates = candidates,
                              .goal = tune_goal::all,
                              .cost = {.us_per_allocation = 0, .us_per_gib = 0, .us_per_free = 1}});
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

/// Programs of random phases, of which each takes what the phase before it left.
std::vector<event> random_program(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<event> events;
  std::vector<std::pair<std::uint64_t, bytes>> live;
  std::uint64_t next = 1;
  for (int phase = 0; phase < 12; ++phase) {
    bytes const limit = bytes{1} << (10 + random() % 16);
    std::uint64_t const share = 30 + random() % 40;
    for (int i = 0; i < 1500; ++i) {
      if (!live.empty() && random() % 100 >= share) {
        std::swap(live[random() % live.size()], live.back());
        events.push_back({.time = events.size(),
                          .address = live.back().first,
                          .size = live.back().second,
                          .kind = event_kind::deallocate});
        live.pop_back();
      } else {
        live.emplace_back(next++, 1 + random() % limit);
        events.push_back(
            {.time = events.size(), .address = live.back().first, .size = live.back().second});
      }
    }
  }
  return events;
}

bool is_as_good(tune_outcome const& a, tune_outcome const& b) {
  return a.peak_reserved <= b.peak_reserved && a.coalesces <= b.coalesces &&
         a.upstream_us <= b.upstream_us;
}

replay_result replayed(std::vector<event> const& events, replay_options const& options) {
  replayer memory{options};
  memory.add(events);
  return memory.result();
}

/// Enough candidates for both of the rounds in which `tune` drops some.
std::vector<replay_options> some_candidates(bytes peak) {
  auto result = sized_candidates(peak);
  auto const all = all_candidates();
  for (std::size_t i = 0; i < all.size(); i += 15) result.push_back(all[i]);
  return result;
}

/// What `tune` finds, by replaying the whole trace with each candidate.
tune_result naive_tuned(std::vector<event> const& events, tune_options const& options,
                        std::vector<tune_outcome> outcomes) {
  tune_result result{.outcomes = std::move(outcomes)};
  auto& all = result.outcomes;
  for (tune_outcome& each : all) {
    auto const found = replayed(events, each.options);
    double const gib = static_cast<double>(found.pool.peak_reserved) * 0x1p-30;
    each.fits = found.fits();
    each.peak_reserved = found.pool.peak_reserved;
    each.coalesces = found.pool.coalesces;
    each.upstream_us = found.upstream_us;
    each.cost_us = found.upstream_us + options.us_per_gib * gib;
  }
  result.best = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].is_on_front = all[i].fits;
    for (std::size_t j = 0; j < all.size(); ++j) {
      bool const is_worse = is_as_good(all[j], all[i]) && (!is_as_good(all[i], all[j]) || j < i);
      if (all[j].fits && is_worse) all[i].is_on_front = false;
    }
    if (all[i].is_on_front &&
        (result.best == all.size() || all[i].cost_us < all[result.best].cost_us))
      result.best = i;
  }
  return result;
}

/// Expects the front and the best outcome of complete replays.
void expect_naive_results(std::vector<event> const& events, tune_options const& options) {
  auto const found = tuned(events, options);
  auto const naive = naive_tuned(events, options, found.outcomes);
  EXPECT_EQ(found.best, naive.best);
  for (std::size_t i = 0; i < found.outcomes.size(); ++i) {
    tune_outcome const &own = found.outcomes[i], &wanted = naive.outcomes[i];
    SCOPED_TRACE(i);
    EXPECT_LE(own.events, found.events);
    EXPECT_FALSE(own.is_dropped && (own.fits || options.goal == tune_goal::all));
    EXPECT_EQ(own.fits, wanted.fits && !own.is_dropped);
    EXPECT_TRUE(is_as_good(own, wanted)) << "figures of a part of the trace are lower bounds";
    if (options.goal != tune_goal::best) {
      EXPECT_EQ(own.is_on_front, wanted.is_on_front);
    }
    if (own.fits) {
      EXPECT_EQ(own.events, found.events);
      EXPECT_TRUE(is_as_good(wanted, own));
      EXPECT_EQ(own.cost_us, wanted.cost_us);
    }
  }
}

TEST(Tune, FindsTheFrontOfCompleteReplays) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  auto const events = random_program(seed);
  bytes const peak = replayed(events, {.placement = strategy::direct}).pool.peak_allocated;
  for (tune_goal const goal : {tune_goal::front, tune_goal::best}) {
    tune_options options{.candidates = some_candidates(peak), .goal = goal};
    expect_naive_results(events, options);
    options.capacity = peak + peak / 8;
    options.us_per_gib = 0;
    expect_naive_results(events, options);
  }
  expect_naive_results(events, {.candidates = some_candidates(peak), .goal = tune_goal::all});
  expect_naive_results(simulation(), {.candidates = some_candidates(369'052'815), .threads = 3});
  expect_naive_results({}, {});
}

TEST(Tune, DropsCandidatesEarlyIfAnotherOneIsAsGood) {
  std::vector<event> events;
  for (std::uint64_t i = 0; i < 100'000; ++i)
    events.push_back({.time = i,
                      .address = 1 + i / 2 % 50,
                      .size = 1 << 20,
                      .kind = i % 2 == 0 ? event_kind::allocate : event_kind::deallocate});
  auto const found = tuned(events, {});
  std::uint64_t replayed = 0, dropped = 0;
  for (auto const& each : found.outcomes) {
    replayed += each.events;
    dropped += each.is_dropped;
    if (each.is_dropped) {
      EXPECT_LT(each.events, found.events / 10);
    }
  }
  EXPECT_GT(dropped, found.outcomes.size() - 20);
  EXPECT_LT(replayed, found.events * found.outcomes.size() / 10);
}

TEST(Tune, TriesPoolsThatSeparateTemporaryAllocations) {
  std::vector<event> events;
  std::uint64_t address = 0;
  auto const add = [&](event_kind kind, std::uint64_t at, bytes size, std::uint32_t site) {
    events.push_back(
        {.time = events.size(), .address = at, .size = size, .call_site = site, .kind = kind});
  };
  for (bytes step = 0; step < 40; ++step) {  // what is temporary grows between what stays
    std::vector<std::uint64_t> temporary;
    for (bytes i = 0; i < 12; ++i) {
      add(event_kind::allocate, address += 4096,
          i % 2 == 0 ? 9'600'000 + 640'000 * step : 1'280'000 + 32'000 * step, 1);
      temporary.push_back(address);
      if (i % 3 == 0) add(event_kind::allocate, address += 4096, 1'280'000, 2);
    }
    for (auto const each : temporary) add(event_kind::deallocate, each, 0, 0);
  }
  auto const found = tuned(events, {.capacity = bytes{450} << 20});
  ASSERT_LT(found.best, found.outcomes.size());
  replay_options best = found.outcomes[found.best].options;
  ASSERT_NE(best.routing, nullptr);
  EXPECT_EQ(best.call_sites, nullptr);
  auto const routes = std::ranges::find(found.routes, best.routing,
                                        [](auto const& each) { return each.table.get(); });
  ASSERT_NE(routes, found.routes.end());
  EXPECT_EQ(routes->key, route_key::call_site);
  EXPECT_EQ(best.routing->pool_for(1, "scratch"), 1u);
  memory_reader const reader{events};
  best.call_sites = &reader.names().call_sites;
  EXPECT_EQ(replayed(events, best).pool.peak_reserved, found.outcomes[found.best].peak_reserved);
}

TEST(Tune, RefusesNegativeCostsAndTracesThatChange) {
  EXPECT_THROW((void)tuned(simulation(), {.us_per_gib = -1}), bad_argument);
  EXPECT_THROW((void)tuned(simulation(), {.us_per_gib = std::nan("")}), bad_argument);
  EXPECT_THROW((void)tuned(simulation(), {.cost = {.us_per_free = -0.5}}), bad_argument);
  auto events = simulation();
  int opened = 0;
  auto const shrinking = [&] {
    if (++opened == 3) events.pop_back();
    return std::make_unique<memory_reader>(events);
  };
  EXPECT_THROW((void)tune(shrinking, {}), bad_trace);
}

TEST(Tune, TwoTunersOfOneFileDoNotDisturbEachOther) {
  std::string const file = QUARRY_DATA "/gnn.pickle.gz";
  auto candidates = published_candidates(heuristic_rules::quarry);
  candidates.resize(8);
  auto const run = [&] {
    return tune([&] { return open_trace(file); }, {.candidates = candidates, .threads = 2});
  };
  tune_result results[2];
  {
    std::jthread const other{[&] { results[1] = run(); }};
    results[0] = run();
  }
  EXPECT_EQ(results[0].best, results[1].best);
  ASSERT_EQ(results[0].outcomes.size(), results[1].outcomes.size());
  for (std::size_t i = 0; i < results[0].outcomes.size(); ++i) {
    EXPECT_EQ(results[0].outcomes[i].events, results[1].outcomes[i].events);
    EXPECT_EQ(results[0].outcomes[i].cost_us, results[1].outcomes[i].cost_us);
  }
}

TEST(Tune, GoalsHaveNames) {
  for (tune_goal const each : {tune_goal::front, tune_goal::best, tune_goal::all})
    EXPECT_EQ(tune_goal_named(name_of(each)), each);
  EXPECT_THROW((void)tune_goal_named("speed"), bad_argument);
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
  EXPECT_GE(last, tuned(simulation(), options).events);
  for (int calls = 0; calls < 4; ++calls) {
    int left = calls;
    options.progress = [&](std::uint64_t) {
      if (left-- == 0) throw std::runtime_error{"stop"};
    };
    EXPECT_THROW((void)tuned(simulation(), options), std::runtime_error);
  }
  options.progress = {};
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
