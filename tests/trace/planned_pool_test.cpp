// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_pool.hpp"

#include "conformance/resource_conformance.hpp"
#include "quarry/host/pools/plan.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/trace/plan.hpp"
#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <sstream>

namespace quarry::test {
namespace planned_pool_test {

/// The plan repeats one size, so it serves most requests of the suite; the fallback serves others.
struct planned_on_the_host {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = true;
  planned_pool<host_resource> source{
      host_resource{}, plan_of_equal_places(), {.fallback = {.alignment = alignment}}};

  [[nodiscard]] static plan plan_of_equal_places() {
    plan result{.alignment = 4096, .size = 100 * 4096};
    for (std::uint64_t i = 0; i < 100; ++i) result.allocations.push_back({4096, 4096 * i, i + 100});
    return result;
  }
  ~planned_on_the_host() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<planned_on_the_host> make() {
    return std::make_unique<planned_on_the_host>();
  }
  void* allocate(bytes size) {
    void* const result = source.allocate(size);
    EXPECT_EQ(registry::find(result)->base, result);
    return result;
  }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(source.size_of(pointer), size);
    EXPECT_TRUE(source.deallocate(pointer));
    EXPECT_FALSE(registry::find(pointer));
  }
};
bool const is_registered = conforms("PlannedPool", testing::Types<planned_on_the_host>{});

}  // namespace planned_pool_test
}  // namespace quarry::test

namespace {

using namespace quarry;
using namespace quarry::trace;
using quarry::bytes;
using quarry::host_resource;
using quarry::pool_options;
using quarry::simulated_resource;

using simulated_pool = planned_pool<simulated_resource>;
using host_pool = planned_pool<host_resource>;

planned_pool_options small_blocks() {
  return {.fallback = {.first_block = 4096, .next_block = 4096, .is_tracked = false}};
}

/// One step of a program: an allocation, or the free of the allocation with this index.
struct program_action {
  bytes size = 0;  // 0: a free
  std::size_t freed = 0;
};
std::vector<event> events_of_program(std::vector<program_action> const& program) {
  std::vector<event> result;
  std::uint64_t address = 0;
  for (program_action const& each : program) {
    if (each.size != 0) {
      result.push_back({.address = ++address, .size = each.size, .kind = event_kind::allocate});
    } else {
      result.push_back({.address = each.freed + 1, .kind = event_kind::deallocate});
    }
  }
  return result;
}
std::vector<program_action> random_program(std::mt19937& random, std::size_t length) {
  std::vector<program_action> result;
  std::vector<std::size_t> live;
  std::size_t allocations = 0;
  for (std::size_t i = 0; i < length; ++i) {
    if (live.size() > random() % 20) {
      std::size_t const at = random() % live.size();
      result.push_back({0, live[at]});
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      result.push_back({1 + random() % 3000, 0});
      live.push_back(allocations++);
    }
  }
  return result;
}

TEST(PlannedPool, ServesTheRecordedProgramFromThePlanAlone) {
  std::mt19937 random{7};
  auto const program = random_program(random, 500);
  auto const served = make_plan(events_of_program(program));
  simulated_pool tested{simulated_resource{}, served, small_blocks()};
  std::vector<void*> pointers;
  for (program_action const& each : program) {
    if (each.size != 0) {
      pointers.push_back(tested.allocate(each.size));
    } else {
      EXPECT_TRUE(tested.deallocate(pointers[each.freed]));
    }
  }
  auto const counts = tested.counts();
  EXPECT_EQ(counts.planned, pointers.size());
  EXPECT_EQ(counts.unplanned + counts.occupied, 0u);
  EXPECT_EQ(counts.peak_reserved, served.size);
  EXPECT_LE(counts.peak_allocated, served.lower_bound);
  EXPECT_EQ(tested.audit(), std::vector<std::string>{});
}

TEST(PlannedPool, ServesOtherSizesFromTheFallback) {
  plan const served{.size = 512, .period_begin = 2, .allocations = {{256, 0, 2}, {256, 256, 2}}};
  simulated_pool tested{simulated_resource{}, served, small_blocks()};
  void* const first = tested.allocate(256);
  void* const other = tested.allocate(1000);
  void* const second = tested.allocate(100);
  EXPECT_EQ(static_cast<char*>(second) - static_cast<char*>(first), 256);
  EXPECT_EQ(tested.size_of(second), 100u);
  EXPECT_EQ(tested.size_of(other), 1000u);
  auto const counts = tested.counts();
  EXPECT_EQ(counts.planned, 2u);
  EXPECT_EQ(counts.unplanned, 1u);
  EXPECT_EQ(counts.reserved, 512 + counts.fallback.reserved);
  EXPECT_EQ(counts.allocated, 1356u);
  for (void* const each : {other, first, second}) EXPECT_TRUE(tested.deallocate(each));
  EXPECT_EQ(tested.counts().allocated, 0u);
  tested.release();
  EXPECT_EQ(tested.counts().reserved, 512u);
}

TEST(PlannedPool, ServesFromTheFallbackWhileThePlaceIsInUse) {
  plan const served{.size = 256, .period_begin = 0, .allocations = {{256, 0, 1}}};
  simulated_pool tested{simulated_resource{}, served, small_blocks()};
  void* const first = tested.allocate(256);
  void* const second = tested.allocate(256);  // the free of `first` is late
  EXPECT_NE(first, second);
  EXPECT_EQ(tested.counts().occupied, 1u);
  EXPECT_TRUE(tested.deallocate(first));
  EXPECT_EQ(tested.allocate(256), first);
}

TEST(PlannedPool, RestartsAtThePeriod) {
  plan const served{
      .size = 768, .period_begin = 1, .allocations = {{256, 0, 3}, {256, 256, 2}, {512, 256, 3}}};
  simulated_pool tested{simulated_resource{}, served, small_blocks()};
  (void)tested.allocate(256);
  void* const first = tested.allocate(256);
  (void)tested.deallocate(first);
  tested.restart();  // without the 512 bytes
  EXPECT_EQ(tested.allocate(256), first);
  EXPECT_EQ(tested.counts().planned, 3u);
}

TEST(PlannedPool, RefusesInvalidFreesAndChangesNothing) {
  plan const served{.size = 512, .period_begin = 2, .allocations = {{256, 0, 2}, {256, 256, 2}}};
  simulated_pool tested{simulated_resource{}, served, small_blocks()};
  char* const first = static_cast<char*>(tested.allocate(256));
  char* const other = static_cast<char*>(tested.allocate(999));
  int foreign = 0;
  EXPECT_FALSE(tested.deallocate(first + 1));
  EXPECT_FALSE(tested.deallocate(first + 256));
  EXPECT_FALSE(tested.deallocate(other + 16));
  EXPECT_FALSE(tested.deallocate(&foreign));
  EXPECT_TRUE(tested.deallocate(nullptr));
  EXPECT_EQ(tested.counts().invalid_frees, 4u);
  EXPECT_EQ(tested.counts().allocations_in_use, 2u);
  EXPECT_TRUE(tested.deallocate(first));
  EXPECT_FALSE(tested.deallocate(first));
  EXPECT_TRUE(tested.deallocate(other));
  EXPECT_FALSE(tested.deallocate(other));
  EXPECT_EQ(tested.counts().invalid_frees, 6u);
  EXPECT_EQ(tested.counts().allocated, 0u);
}

TEST(PlannedPool, KeepsItsLimitAndItsAlignment) {
  plan const served{.size = 512, .period_begin = 2, .allocations = {{256, 0, 2}, {256, 256, 2}}};
  auto options = small_blocks();
  options.fallback.max_bytes = 511;
  EXPECT_THROW((simulated_pool{simulated_resource{}, served, options}), quarry::out_of_memory);
  options.fallback.max_bytes = 8192;
  options.fallback.alignment = 512;
  EXPECT_THROW((simulated_pool{simulated_resource{}, served, options}), quarry::bad_argument);
  options.fallback.alignment = 16;
  simulated_pool tested{simulated_resource{}, served, options};
  EXPECT_THROW((void)tested.allocate(8192), quarry::out_of_memory);
  EXPECT_THROW((void)tested.allocate(~bytes{0}), quarry::out_of_memory);
  EXPECT_THROW((void)tested.allocate(16, 24), quarry::bad_argument);
  EXPECT_EQ(tested.counts().allocations, 0u);
  for (bytes const alignment : {256u, 512u, 1024u}) {
    tested.restart();
    void* const aligned = tested.allocate(256, alignment);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(aligned) % alignment, 0u);
  }
  plan wrong = served;
  wrong.allocations[1].offset = 128;
  EXPECT_THROW((simulated_pool{simulated_resource{}, wrong}), quarry::bad_argument);
}

TEST(PlannedPool, ReportsThePlacesAndTheFallbackAsTwoAllocators) {
  plan const served{.size = 512, .period_begin = 2, .allocations = {{256, 0, 2}, {256, 256, 2}}};
  host_pool tested{host_resource{}, served, {.fallback = {.name = "model"}}};
  void* const place = tested.allocate(256);
  void* const other = tested.allocate(999);
  EXPECT_TRUE(tested.label(place, "weights"));
  EXPECT_TRUE(tested.label(other, "scratch"));
  EXPECT_FALSE(tested.label(static_cast<char*>(place) + 256, "free"));
  std::ostringstream leaks;
  quarry::registry::report(leaks, tested.id());
  quarry::registry::report(leaks, tested.fallback_id());
  for (char const* const text : {"weights", "scratch", "model", "model fallback"})
    EXPECT_NE(leaks.str().find(text), std::string::npos) << text << '\n' << leaks.str();
  EXPECT_EQ(quarry::registry::name_of(tested.fallback_id()), "model fallback");
  EXPECT_EQ(quarry::registry::allocations(tested.id()).size(), 1u);
  EXPECT_GE(tested.bookkeeping(), sizeof tested);
  (void)tested.deallocate(place);
  (void)tested.deallocate(other);
  EXPECT_FALSE(quarry::registry::find(place));
}

#if QUARRY_ADDRESS_SANITIZER
TEST(PlannedPool, PoisonsFreePlaces) {
  plan const served{.size = 512, .period_begin = 2, .allocations = {{256, 0, 2}, {256, 256, 2}}};
  host_pool tested{host_resource{}, served, small_blocks()};
  auto* const place = static_cast<char*>(tested.allocate(200));
  EXPECT_EQ(__asan_region_is_poisoned(place, 200), nullptr);
  EXPECT_EQ(__asan_address_is_poisoned(place + 200), 1);
  EXPECT_EQ(__asan_address_is_poisoned(place + 256), 1);
  EXPECT_TRUE(tested.deallocate(place));
  EXPECT_EQ(__asan_address_is_poisoned(place), 1);
}
#endif

TEST(PlannedPool, IsAStrategyOfReplays) {
  std::mt19937 random{3};
  auto const events = events_of_program(random_program(random, 500));
  auto const served = make_plan(events, {.max_steps = 100'000});
  replay_options options{.placement = strategy::planned};
  EXPECT_THROW((replayer{options}), quarry::bad_argument);
  options.plan = &served;
  replayer tested{options};
  tested.add(events);
  auto const result = tested.result();
  EXPECT_TRUE(result.fits());
  EXPECT_EQ(result.pool.peak_reserved, served.size);
  EXPECT_EQ(result.pool.blocks_allocated, 1u);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->planned, served.allocations.size());
  EXPECT_EQ(result.plan->occupied + result.plan->unplanned + result.plan->jumps, 0u);
  EXPECT_EQ(result.plan->fallback_peak, 0u);
  EXPECT_EQ(strategy_named("planned"), strategy::planned);
}

TEST(PlannedPool, AReplayWhosePlanExceedsTheCapacityServesNothing) {
  std::mt19937 random{3};
  auto const events = events_of_program(random_program(random, 500));
  auto const served = make_plan(events, {.max_steps = 100'000});
  for (strategy const placement : {strategy::planned, strategy::planned_streams}) {
    replay_options options{.placement = placement, .plan = &served};
    options.pool.max_bytes = served.size - 1;
    replayer tested{options};
    tested.add(events);
    auto const result = tested.result();
    EXPECT_EQ(result.failures, served.allocations.size());
    ASSERT_TRUE(result.first_failure);
    EXPECT_NE(result.first_failure->reason.find("the plan exceeds max_bytes"), std::string::npos);
    EXPECT_FALSE(result.plan);
  }
}

/// Runs a program with random deviations from its plan, and compares each allocation with a model.
/// The bytes of each allocation hold its number, so an overlap also shows in the memory.
void run_with_deviations(unsigned seed) {
  std::mt19937 random{seed};
  auto const program = random_program(random, 200 + random() % 600);
  plan served = make_plan(events_of_program(program), {.max_steps = 100'000});
  if (random() % 2 == 0) served.period_begin = random() % served.allocations.size();
  if (!audit(served).empty()) served.period_begin = served.allocations.size();
  auto options = small_blocks();
  options.lookahead = static_cast<std::uint32_t>(random() % 80);
  host_pool tested{host_resource{}, served, options};
  unsigned const deviations = static_cast<unsigned>(random() % 30);  // percent of the actions

  struct live_allocation {
    bytes size;
    unsigned char mark;
  };
  std::map<std::uint64_t, live_allocation> model;
  bytes allocated = 0;
  std::uint64_t number = 0, latest = 0;
  auto const allocate = [&](bytes size) {
    auto* const found = static_cast<unsigned char*>(tested.allocate(size));
    auto const begin = reinterpret_cast<std::uint64_t>(found);
    auto const next = model.lower_bound(begin);
    if (next != model.end()) {
      ASSERT_LE(begin + std::max<bytes>(size, 1), next->first);
    }
    if (next != model.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.size, begin);
    }
    auto const mark = static_cast<unsigned char>(++number);
    std::memset(found, mark, size);
    model[begin] = {size, mark};
    latest = begin;
    allocated += size;
  };
  auto const free = [&](std::uint64_t begin) {
    auto const [size, mark] = model.at(begin);
    auto* const freed = reinterpret_cast<unsigned char*>(begin);
    ASSERT_EQ(tested.size_of(freed), size);
    for (bytes i = 0; i < size; ++i) ASSERT_EQ(freed[i], mark);
    ASSERT_TRUE(tested.deallocate(freed));
    ASSERT_FALSE(tested.deallocate(freed));
    model.erase(begin);
    allocated -= size;
  };
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<std::uint64_t> pointers;
    for (program_action const& each : program) {
      bool const deviates = random() % 100 < deviations;
      if (each.size != 0) {
        bytes size = each.size;
        if (deviates && random() % 3 == 0) size = random() % 4000;     // another size
        if (deviates && random() % 3 == 0) allocate(random() % 4000);  // one more
        if (deviates && random() % 4 == 0) {
          pointers.push_back(0);  // it is missing
          continue;
        }
        allocate(size);
        pointers.push_back(latest);
      } else if (!deviates && each.freed < pointers.size() &&
                 model.contains(pointers[each.freed])) {
        free(pointers[each.freed]);  // else the free is late, or never comes
      }
      if (deviates && !model.empty() && random() % 2 == 0) {
        auto found = model.begin();
        std::advance(found, static_cast<std::ptrdiff_t>(random() % model.size()));
        free(found->first);  // in another order
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(tested.audit(), std::vector<std::string>{});
    ASSERT_EQ(tested.counts().allocated, allocated);
    ASSERT_EQ(tested.counts().allocations_in_use, model.size());
    if (random() % 2 == 0) {
      while (!model.empty() && !::testing::Test::HasFatalFailure()) free(model.begin()->first);
    }
    if (random() % 2 == 0) tested.restart();
  }
}

TEST(PlannedPool, NeverOverlapsWhateverThePlanSays) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    run_with_deviations(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
