// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/plan.hpp"

#include "quarry/trace/reader.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>

namespace {

using namespace quarry;
using namespace quarry::trace;
using quarry::bytes;

class event_list {
 public:
  event_list& allocate(std::uint64_t address, bytes size) {
    events.push_back({.address = address, .size = size, .kind = event_kind::allocate});
    return *this;
  }
  event_list& free(std::uint64_t address) {
    events.push_back({.address = address, .kind = event_kind::deallocate});
    return *this;
  }
  std::vector<event> events;
};

/// Random allocations, about `live` of them at one time.
std::vector<event> random_events(std::mt19937& random, std::size_t count, std::size_t live) {
  event_list result;
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 1; i <= count; ++i) {
    while (addresses.size() > random() % (2 * live)) {
      std::size_t const at = random() % addresses.size();
      result.free(addresses[at]);
      addresses.erase(addresses.begin() + static_cast<std::ptrdiff_t>(at));
    }
    result.allocate(i, random() % 4 == 0 ? random() % 100'000 : random() % 2000);
    addresses.push_back(i);
  }
  return result.events;
}

/// A program: setup, then `steps` equal steps. An allocation of a step lives into the next step.
std::vector<event> events_of_steps(int steps) {
  event_list result;
  std::uint64_t next = 1, carried = 0;
  auto const setup = next;
  for (int i = 0; i < 7; ++i) result.allocate(next++, 5000 + 1000u * static_cast<unsigned>(i));
  result.free(setup + 3);
  for (int step = 0; step < steps; ++step) {
    std::uint64_t const first = next;
    for (int i = 0; i < 20; ++i) result.allocate(next++, 256u * static_cast<unsigned>(1 + i));
    if (carried != 0) result.free(carried);
    for (std::uint64_t i = first; i < next; ++i) {
      if (i != first + 13) result.free(i);
    }
    carried = first + 13;
  }
  return result.events;
}

std::string plan_path(char const* name) { return ::testing::TempDir() + "/" + name; }
void write_plan_text(std::string const& path, std::string const& text) {
  std::ofstream{path, std::ios::binary} << text;
}
std::string plan_text(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
std::string plan_refusal(std::string const& path) {
  try {
    (void)load_plan(path);
  } catch (bad_plan const& refused) {
    return refused.message();
  }
  return "";
}

TEST(Plan, PutsAllocationsThatLiveAtDifferentTimesAtOnePlace) {
  auto const found =
      make_plan(event_list{}.allocate(1, 1000).free(1).allocate(2, 1000).allocate(3, 10).events);
  EXPECT_EQ(found.size, 1280u);
  EXPECT_EQ(found.lower_bound, 1280u);
  ASSERT_EQ(found.allocations.size(), 3u);
  EXPECT_EQ(found.allocations[0].size, 1024u);
  EXPECT_EQ(found.allocations[0].freed_before, 1u);
  EXPECT_EQ(found.allocations[2].freed_before, 3u);  // the trace does not free it
  EXPECT_FALSE(found.has_period());
  EXPECT_TRUE(audit(found).empty());
}

TEST(Plan, OfATraceWithoutAllocationsIsEmpty) {
  auto const found = make_plan(std::vector<event>{});
  EXPECT_EQ(found.size, 0u);
  EXPECT_TRUE(found.allocations.empty());
  EXPECT_TRUE(audit(found).empty());
}

TEST(Plan, TreatsAnAddressInUseAsFreed) {
  auto const found = make_plan(event_list{}.allocate(1, 256).allocate(1, 256).events);
  EXPECT_EQ(found.size, 256u);
}

TEST(Plan, RefusesWrongOptionsAndSizes) {
  std::vector<event> const one = event_list{}.allocate(1, bytes{1} << 50).events;
  EXPECT_THROW((void)make_plan(one), quarry::bad_argument);
  EXPECT_THROW((void)make_plan(one, {.alignment = 48}), quarry::bad_argument);
  EXPECT_THROW((void)make_plan(one, {.alignment = 8}), quarry::bad_argument);
}

TEST(Plan, OfRandomTracesHasNoOverlapAndIsNearTheLowerBound) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    auto const events = random_events(random, 1 + random() % 400, 1 + random() % 30);
    plan_options const options{
        .alignment = bytes{16} << (random() % 6), .max_steps = random() % 100'000, .seed = seed};
    auto const found = make_plan(events, options);
    EXPECT_EQ(audit(found), std::vector<std::string>{});
    EXPECT_GE(found.size, found.lower_bound);
    EXPECT_LE(found.size, 2 * found.lower_bound);
    EXPECT_EQ(make_plan(events, options), found) << "the same seed gives another plan";
  }
}

TEST(Plan, FindsThePeriodOfEqualSteps) {
  auto const found = find_period(events_of_steps(10));
  EXPECT_EQ(found.length, 20u);
  EXPECT_GE(found.repetitions, 8);
  EXPECT_EQ(find_period(events_of_steps(2)).length, 0u);
  std::mt19937 random{1};
  EXPECT_EQ(find_period(random_events(random, 1000, 10)), period{});
}

TEST(Plan, OfEqualStepsHasOneStepAndItsCarriedAllocation) {
  auto const found = make_plan(events_of_steps(50));
  EXPECT_TRUE(found.has_period());
  EXPECT_EQ(found.allocations.size() - found.period_begin, 20u);
  EXPECT_LT(found.allocations.size(), 70u);
  EXPECT_EQ(audit(found), std::vector<std::string>{});
  EXPECT_EQ(make_plan(events_of_steps(50), {.finds_period = false}).allocations.size(), 1007u);
}

TEST(Plan, HasMoreThanTwoMillionAllocations) {
  constexpr std::size_t count = (std::size_t{1} << 21) + 1000;
  std::vector<event> events;
  events.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    events.push_back({.address = 1, .size = 1 + i % 7919});
    events.push_back({.address = 1, .kind = event_kind::deallocate});
  }
  auto const found = make_plan(events, {.finds_period = false, .max_steps = 1});
  EXPECT_EQ(found.allocations.size(), count);
  EXPECT_EQ(found.size, found.lower_bound);
}

TEST(Plan, ProgressCanEndThePlacement) {
  std::mt19937 random{9};
  auto const events = random_events(random, 20'000, 2'000);
  plan_options options;
  std::uint64_t steps_before = 0;
  int calls = 0;
  options.progress = [&](std::uint64_t steps) {
    EXPECT_GT(steps, steps_before);
    steps_before = steps;
    if (++calls == 3) throw std::runtime_error{"stopped"};
  };
  EXPECT_THROW((void)make_plan(events, options), std::runtime_error);
  EXPECT_EQ(calls, 3);
}

TEST(Plan, AuditFindsOverlaps) {
  plan wrong{.size = 1024, .period_begin = 2, .allocations = {{512, 0, 2}, {512, 256, 2}}};
  EXPECT_EQ(audit(wrong).size(), 1u);
  wrong.allocations[0].freed_before = 1;
  EXPECT_TRUE(audit(wrong).empty());
  wrong.allocations[1].offset = 768;  // beyond the range
  EXPECT_EQ(audit(wrong).size(), 1u);
  // allocation 1 lives into the next repetition, and overlaps allocation 0 there
  plan const wraps{.size = 512, .period_begin = 0, .allocations = {{512, 0, 1}, {512, 0, 3}}};
  EXPECT_EQ(audit(wraps).size(), 1u);
}

TEST(Plan, AuditFindsWrongLeastSizes) {
  plan ranged{.size = 1024, .period_begin = 1, .allocations = {{1024, 0, 1, 256}}};
  EXPECT_TRUE(audit(ranged).empty());
  for (bytes const wrong : {bytes{100}, bytes{1280}}) {
    ranged.allocations[0].min_size = wrong;
    EXPECT_EQ(audit(ranged).size(), 1u) << wrong;
  }
}

TEST(Plan, IsTheSameAfterSaveAndLoad) {
  plan const ranged{
      .size = 1024, .period_begin = 0, .allocations = {{1024, 0, 1, 256}, {512, 0, 2}}};
  for (auto saved : {make_plan(events_of_steps(50)), plan{}, ranged}) {
    auto const path = plan_path("saved.plan");
    save(saved, path);
    EXPECT_EQ(load_plan(path), saved);
    std::remove(path.c_str());
  }
}

TEST(Plan, RefusesADamagedFileWithItsLineAndReason) {
  auto const path = plan_path("damaged.plan");
  save(make_plan(events_of_steps(0)), path);
  std::string const text = plan_text(path);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ (i % 7 == 0 ? 0x80 : 1));
    write_plan_text(path, damaged);
    EXPECT_EQ(plan_refusal(path).find(path), 0u) << "byte " << i;
    write_plan_text(path, text.substr(0, i));
    EXPECT_NE(plan_refusal(path), "") << "the first " << i << " bytes";
  }
  write_plan_text(path, "quarry-plan 1\nalignment 256\nbytes many\n");
  EXPECT_EQ(plan_refusal(path), path + ":3: expected a number");
  write_plan_text(path, text + "x");
  EXPECT_NE(plan_refusal(path).find("after the checksum"), std::string::npos);
  std::remove(path.c_str());
  EXPECT_THROW((void)load_plan(path), quarry::resource_failed);
  EXPECT_THROW(save({}, plan_path("no-folder/x.plan")), quarry::resource_failed);
}

TEST(Plan, RefusesAFileWhosePlanOverlaps) {
  auto const path = plan_path("overlap.plan");
  save({.size = 512, .period_begin = 2, .allocations = {{512, 0, 2}, {512, 0, 2}}}, path);
  EXPECT_NE(plan_refusal(path).find("overlaps"), std::string::npos);
  std::remove(path.c_str());
}

/// The ratio of a recorded program's plan to its lower bound.
double plan_excess(char const* name) {
  auto const trace = open_trace(std::string{QUARRY_DATA "/"} + name);
  auto const found = make_plan(*trace, {.max_steps = 30'000'000});
  EXPECT_EQ(audit(found), std::vector<std::string>{});
  return static_cast<double>(found.size) / static_cast<double>(found.lower_bound);
}

TEST(Plan, OfRecordedProgramsIsNearTheLowerBound) {
  EXPECT_LE(plan_excess("gnn.pickle.gz"), 1.001);
  EXPECT_LE(plan_excess("gpt.pickle.gz"), 1.001);
  EXPECT_LE(plan_excess("resnet.pickle.gz"), 1.001);
  EXPECT_LE(plan_excess("kvcache.pickle.gz"), 1.04);
}

}  // namespace
