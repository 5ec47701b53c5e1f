// SPDX-License-Identifier: Apache-2.0
// The repetitions of programs that deviate now and then.
#include "trace/repetition.hpp"

#include "quarry/trace/plan.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

namespace quarry::trace {
namespace repetition_test {

/// The repetition by sizes.
repetition repetition_of(std::vector<lifetime> const& all) {
  std::vector<std::uint64_t> keys;
  for (lifetime const& each : all) keys.push_back(each.size);
  return find_repetition(all, keys);
}

/// How the steps of a program deviate from each other.
struct deviations {
  int steps_per_log = 0;         ///< after so many steps, two small allocations more; 0: never
  int steps_per_evaluation = 0;  ///< after so many steps, other allocations
  bool has_late_frees = false;   ///< a batch may be freed in the next step
  bool has_own_batch = false;    ///< the size of the batch differs in each step
};

/// The events of training with 12 layers: each step has 62 allocations.
class training {
 public:
  training(int steps, deviations const& made, unsigned seed) : random_{seed} {
    for (int layer = 0; layer < 12; ++layer) (void)allocate(1 << 20);
    for (int i = 1; i <= steps; ++i) {
      step(made);
      if (made.steps_per_log != 0 && i % made.steps_per_log == 0) {
        auto const line = allocate(1234);
        free(allocate(77));
        free(line);
      }
      if (made.steps_per_evaluation != 0 && i % made.steps_per_evaluation == 0)
        for (bytes layer = 0; layer < 24; ++layer) free(allocate(3'000'000 + 1000 * layer));
    }
  }
  std::vector<event> events;

 private:
  void step(deviations const& made) {
    bytes const batch_size = made.has_own_batch ? 1024 * (1 + random_() % 1000) : 300'000;
    auto const batch = allocate(batch_size);
    std::vector<std::uint64_t> activations;
    for (bytes layer = 0; layer < 12; ++layer) {
      activations.push_back(allocate(4'000'000));
      auto const scratch = allocate(900'000);
      free(allocate(50'000 + layer));
      free(scratch);
    }
    auto const loss = allocate(512);
    for (auto const each : late_) free(each);
    late_ = {loss};
    for (int layer = 11; layer >= 0; --layer) {
      auto const gradient = allocate(2'000'000);
      auto const other = allocate(1'000'000);
      free(activations[static_cast<std::size_t>(layer)]);
      free(gradient);
      free(other);
    }
    if (made.has_late_frees && random_() % 2 == 0) {
      late_.push_back(batch);
    } else {
      free(batch);
    }
  }
  std::uint64_t allocate(bytes size) {
    events.push_back({.address = ++next_ << 30, .size = size});
    return next_ << 30;
  }
  void free(std::uint64_t address) {
    events.push_back({.address = address, .kind = event_kind::deallocate});
  }

  std::mt19937 random_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> late_;
};

/// The share of a program's allocations that a plan of another run serves.
double served_share(plan const& served, std::span<event const> program) {
  replayer memory{{.placement = strategy::planned, .plan = &served}};
  memory.add(program);
  plan_use const use = memory.result().plan.value();
  return static_cast<double>(use.planned) /
         static_cast<double>(use.planned + use.occupied + use.unplanned);
}

void expect_period(deviations const& made, std::uint64_t length, double least_share) {
  training const program{60, made, 1};
  auto const found = find_period(program.events);
  EXPECT_EQ(found.length, length);
  auto const planned = make_plan(program.events, {.max_steps = 100'000});
  EXPECT_EQ(planned.allocations.size() - planned.period_begin, length);
  EXPECT_EQ(audit(planned), std::vector<std::string>{});
  EXPECT_GT(served_share(planned, training(200, made, 2).events), least_share);
}

TEST(Repetition, OfEqualStepsIsOneStep) { expect_period({}, 62, 0.98); }

TEST(Repetition, IsFoundIfLifetimesDiffer) { expect_period({.has_late_frees = true}, 62, 0.97); }

TEST(Repetition, IsFoundBetweenLogsAndEvaluations) {
  expect_period({.steps_per_evaluation = 25}, 62, 0.96);
  expect_period({.steps_per_log = 10}, 622, 0.98);  // ten steps and a log repeat, too
  expect_period({.steps_per_log = 10, .steps_per_evaluation = 25, .has_late_frees = true}, 62,
                0.95);
}

TEST(Repetition, IsFoundIfOneSizeOfEachStepDiffers) {
  expect_period({.has_own_batch = true}, 62, 0.93);
}

TEST(Repetition, IsFoundInTheStepsOfARecordedTraining) {
  auto const trace = open_trace(QUARRY_DATA "/gpt.pickle.gz");
  std::vector<event> events(1 << 17);
  events.resize(trace->read(events));
  // These five steps of the recording have batches of one shape.
  std::size_t allocations = 0, first = 0, last = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind != event_kind::allocate) continue;
    if (allocations == 11'618) first = i;
    if (++allocations == 11'618 + 3'647) last = i;
  }
  std::span const steps = std::span{events}.subspan(first, last - first);
  auto const found = find_period(steps);
  EXPECT_EQ(found.length, 709u);
  EXPECT_GT(found.repetitions, 5.0);
  auto const planned = make_plan(steps, {.max_steps = 1'000'000});
  EXPECT_EQ(audit(planned), std::vector<std::string>{});
  EXPECT_GT(served_share(planned, steps), 0.99);
}

TEST(Repetition, OfARecordedTrainingWhoseBatchesDifferIsFoundByCallSites) {
  auto const trace = open_trace(QUARRY_DATA "/gpt.pickle.gz");
  std::vector<event> events(1 << 17);
  events.resize(trace->read(events));
  auto const found = find_period(events);
  EXPECT_EQ(found.length, 709u);
  EXPECT_GT(found.repetitions, 20.0);
  auto const planned = make_plan(events, {.max_steps = 30'000'000});
  EXPECT_EQ(audit(planned), std::vector<std::string>{});
  EXPECT_EQ(planned.allocations.size() - planned.period_begin, 709u);
  EXPECT_LT(planned.allocations.size(), 8000u) << "of 18,101";
  EXPECT_GT(served_share(planned, events), 0.99);
  replayer memory{{.placement = strategy::planned, .plan = &planned}};
  memory.add(events);
  auto const used = memory.result();
  EXPECT_LT(used.pool.peak_reserved, used.pool.peak_allocated / 100 * 108);
}

TEST(Repetition, OfSizesThatVaryHasARangeThatNineOfTenRepetitionsFit) {
  std::vector<lifetime> all;
  std::vector<std::uint64_t> sites;
  std::mt19937 random{4};
  for (std::uint32_t step = 0; step < 100; ++step) {
    bytes const batch = 256 * (1 + random() % 9);
    bytes const sizes[] = {batch, 2 * batch, bytes{step == 50 ? 4096u : 512u}, 4 * batch};
    for (std::uint32_t i = 0; i < 4; ++i) {
      auto const number = static_cast<std::uint32_t>(all.size());
      all.push_back({sizes[i], number + 1 + i % 2, 0});
      sites.push_back(7 + i);
    }
  }
  EXPECT_TRUE(repetition_of(all).sequence.empty()) << "the sizes repeat nothing";
  auto const found = find_repetition(all, sites);
  ASSERT_EQ(found.sequence.size(), 4u);
  EXPECT_EQ(found.sequence[0].size, 256u * 9);
  EXPECT_EQ(found.sequence[0].min_size, 256u);
  EXPECT_EQ(found.sequence[1].size, 512u * 9);
  EXPECT_EQ(found.sequence[2].size, 512u) << "one of a hundred differs";
  EXPECT_EQ(found.sequence[2].min_size, 0u);
  EXPECT_EQ(found.sequence[3].duration, 2u);
}

TEST(Repetition, WhoseLargestSizesNeverMeetHasNoPlanOfAPeriod) {
  // In each step, one of four arrays is large: a place for the largest of each takes four times as
  // much.
  std::vector<event> events;
  for (std::uint64_t step = 0; step < 100; ++step) {
    for (std::uint64_t i = 0; i < 4; ++i)
      events.push_back({.address = 1 + i,
                        .size = step % 4 == i ? 4'000'000u : 4096 * (1 + (step * 7 + i) % 5),
                        .call_site = static_cast<std::uint32_t>(1 + i)});
    for (std::uint64_t i = 0; i < 4; ++i)
      events.push_back({.address = 1 + i, .kind = event_kind::deallocate});
  }
  auto const planned = make_plan(events);
  EXPECT_LT(planned.size, 5'000'000u);
  EXPECT_EQ(served_share(planned, events), 1.0);
}

TEST(Repetition, NeedsHalfOfTheAllocationsAndOfTheBytes) {
  auto program = training{60, {}, 1}.events;
  std::vector<event> others;
  std::mt19937 random{1};
  for (std::uint64_t i = 1; i <= 3500; ++i) {
    others.push_back({.address = i, .size = 1 + random() % 1'000'000});
    others.push_back({.address = i, .kind = event_kind::deallocate});
  }
  EXPECT_EQ(find_period(others), period{});
  program.insert(program.end(), others.begin(), others.end());
  EXPECT_EQ(find_period(program).length, 62u);
  program.insert(program.end(), others.begin(), others.end());
  EXPECT_EQ(find_period(program), period{}) << "most allocations repeat nothing";
  program = training{60, {}, 1}.events;
  program.push_back({.address = 1, .size = bytes{1} << 40});
  EXPECT_EQ(find_period(program), period{}) << "the plan would lack most bytes";
}

TEST(Repetition, OfRandomProgramsDoesNotExist) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    std::vector<lifetime> all;
    for (std::uint32_t i = 0; i < 2000; ++i)
      all.push_back(
          {256 * (1 + random() % 50), i + 1 + static_cast<std::uint32_t>(random() % 9), 0});
    EXPECT_TRUE(repetition_of(all).sequence.empty()) << "seed " << seed;
  }
}

TEST(Repetition, OfTracesBelowThreeRepetitionsDoesNotExist) {
  for (int steps = 0; steps <= 2; ++steps)
    EXPECT_EQ(find_period(training{steps, {}, 1}.events).length, 0u);
  EXPECT_EQ(repetition_of({}).sequence.size(), 0u);
}

TEST(Repetition, OfEqualAllocationsIsOneAllocation) {
  std::vector<lifetime> all;
  for (std::uint32_t i = 0; i < 100; ++i) all.push_back({512, i + 1, 0});
  auto const found = repetition_of(all);
  ASSERT_EQ(found.sequence.size(), 1u);
  EXPECT_EQ(found.sequence[0].size, 512u);
  EXPECT_EQ(found.sequence[0].duration, 1u);
}

}  // namespace repetition_test
}  // namespace quarry::trace
