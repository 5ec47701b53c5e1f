// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/compare_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace quarry::trace {
namespace compare_keys_test {

/// A trace in memory.
struct recorded {
  std::vector<event> events;
  std::vector<std::string> call_sites;

  [[nodiscard]] name_table names() const {
    name_table result;
    for (std::string const& each : call_sites) (void)result.add(each);
    return result;
  }
};

class recorded_reader final : public reader {
 public:
  explicit recorded_reader(recorded const& source) : left_{source.events} {
    names_.call_sites = source.names();
  }
  std::size_t read(std::span<event> target) override {
    std::size_t const count = std::min(target.size(), left_.size());
    std::ranges::copy(left_.first(count), target.begin());
    left_ = left_.subspan(count);
    return count;
  }
  format file_format() const override { return format::text; }

 private:
  std::span<event const> left_;
};

key_comparison compared(recorded const& source, key_comparison_options const& options) {
  return compare_keys([&] { return std::make_unique<recorded_reader>(source); }, options);
}

/// Random allocations and frees, in random phases, at random call sites.
recorded random_program(unsigned seed, std::size_t count) {
  std::mt19937 random{seed};
  recorded result{.events = {}, .call_sites = {"a", "b", "c", "step 1", "step 2"}};
  std::vector<std::uint64_t> live;
  for (std::size_t i = 0; i < count; ++i) {
    event each{.time = i};
    if (random() % 50 == 0) {
      each.kind = event_kind::phase;
      each.call_site = 4 + random() % 2;
    } else if (live.empty() || random() % 20 < 11) {
      each.address = (1 + i) << 24;
      each.size = 1 + random() % 100'000;
      each.call_site = random() % 4;
      live.push_back(each.address);
    } else {
      std::size_t const at = random() % live.size();
      each.kind = event_kind::deallocate;
      each.address = live[at];
      live[at] = live.back();
      live.pop_back();
    }
    result.events.push_back(each);
  }
  return result;
}

/// The other part of a trace: the allocations that are in use where it begins, in their phases, and
/// the events from there on.
std::vector<event> naive_other_part(std::vector<event> const& events, std::size_t split) {
  std::vector<event> result;
  for (std::size_t i = 0; i < split; ++i) {
    bool const is_freed = std::any_of(
        events.begin() + static_cast<std::ptrdiff_t>(i),
        events.begin() + static_cast<std::ptrdiff_t>(split), [&](event const& other) {
          return other.kind == event_kind::deallocate && other.address == events[i].address;
        });
    if (events[i].kind == event_kind::phase ||
        (events[i].kind == event_kind::allocate && !is_freed))
      result.push_back(events[i]);
  }
  result.insert(result.end(), events.begin() + static_cast<std::ptrdiff_t>(split), events.end());
  return result;
}

TEST(CompareKeys, RepeatsWhatSeparateAndReplayFindOneAfterTheOther) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    auto const program = random_program(seed, 900);
    name_table const names = program.names();
    auto const split = program.events.size() / (1 + seed % 3) / 2;
    replay_options const pool{.pool = {.first_block = 1 << 16, .next_block = 1 << 16}};
    auto const found = compared(
        program, {.temporary_events = 30,
                  .learn = static_cast<double>(split) / static_cast<double>(program.events.size()),
                  .replay = pool});
    ASSERT_NEAR(static_cast<double>(found.learned_events), static_cast<double>(split), 1.0);
    auto const learned = std::span{program.events}.first(found.learned_events);
    auto const rest = naive_other_part(program.events, found.learned_events);
    ASSERT_EQ(found.keys.size(), std::size(all_route_keys));
    for (compared_key const& each : found.keys) {
      auto const table = separate(learned, names, {.key = each.key, .temporary_events = 30});
      EXPECT_EQ(each.table.routes(), table.routes());
      replay_options options = pool;
      options.routing = &table;
      options.call_sites = &names;
      replayer memory{options};
      memory.add(rest);
      auto const expected = memory.result();
      EXPECT_EQ(each.apart.pool.allocations, expected.pool.allocations);
      EXPECT_EQ(each.apart.pool.peak_allocated, expected.pool.peak_allocated);
      EXPECT_EQ(each.apart.pool.peak_reserved, expected.pool.peak_reserved);
    }
  }
}

TEST(CompareKeys, TakesTheKeyThatReservesLeast) {
  auto const program = random_program(7, 2000);
  auto const found = compared(program, {.temporary_events = 40});
  bytes least = found.together.pool.peak_reserved;
  for (compared_key const& each : found.keys)
    least = std::min(least, each.apart.pool.peak_reserved);
  if (found.best == found.keys.size()) {
    EXPECT_EQ(least, found.together.pool.peak_reserved);
  } else {
    EXPECT_LT(least, found.together.pool.peak_reserved);
    EXPECT_EQ(found.keys[found.best].apart.pool.peak_reserved, least);
  }
}

TEST(CompareKeys, ATraceWithoutTemporaryAllocationsNeedsOnePool) {
  auto const found = compared(random_program(3, 500), {.temporary_events = 0});
  EXPECT_EQ(found.best, found.keys.size());
  for (compared_key const& each : found.keys) EXPECT_EQ(each.table.pools(), 1u);
  auto const nothing = compared({}, {});
  EXPECT_EQ(nothing.events, 0u);
  EXPECT_EQ(nothing.best, nothing.keys.size());
}

TEST(CompareKeys, RefusesWrongOptionsAndTracesThatChange) {
  auto program = random_program(1, 100);
  EXPECT_THROW((void)compared(program, {.learn = 0}), bad_argument);
  EXPECT_THROW((void)compared(program, {.learn = 1}), bad_argument);
  EXPECT_THROW((void)compared(program, {.replay = {.placement = strategy::stitched}}),
               bad_argument);
  auto const shrinking = [&] {
    program.events.pop_back();
    return std::make_unique<recorded_reader>(program);
  };
  EXPECT_THROW((void)compare_keys(shrinking, {}), bad_trace);
}

TEST(CompareKeys, ReportsProgressAndPassesExceptionsOn) {
  auto const program = random_program(2, 300);
  std::uint64_t read = 0;
  key_comparison_options options{.progress = [&](std::uint64_t events) { read = events; }};
  (void)compared(program, options);
  EXPECT_EQ(read, 600u);
  options.progress = [](std::uint64_t) { throw std::runtime_error{"stopped"}; };
  EXPECT_THROW((void)compared(program, options), std::runtime_error);
}

TEST(CompareKeys, KeysHaveNames) {
  for (route_key const each : all_route_keys) EXPECT_EQ(route_key_named(name_of(each)), each);
  EXPECT_THROW((void)route_key_named("colour"), bad_argument);
}

}  // namespace compare_keys_test
}  // namespace quarry::trace
