// SPDX-License-Identifier: Apache-2.0
// Failures of the recording: a replay tries their requests again.
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"
#include "quarry/trace/tune.hpp"
#include "trace/trace_files.hpp"

#include <algorithm>
#include <map>
#include <random>

namespace quarry::test {
namespace replay_failures_test {

using trace::event;
using trace::event_kind;
using trace::replay_result;
using trace::strategy;

/// The strategies of the table without a plan.
std::vector<strategy> const all_strategies = [] {
  std::vector<strategy> result;
  for (trace::strategy_text const& each : trace::strategy_texts())
    if (!each.needs_plan) result.push_back(trace::strategy_named(each.name));
  return result;
}();

event allocation(std::uint64_t address, bytes size) { return {.address = address, .size = size}; }
event free_of(std::uint64_t address) {
  return {.address = address, .kind = event_kind::deallocate};
}
event failure(bytes size) { return {.size = size, .kind = event_kind::fail}; }

replay_result replay_of(std::vector<event> const& events, strategy placement, bytes capacity) {
  trace::replayer memory{
      {.placement = placement,
       .pool = {.first_block = 2_MiB, .next_block = 2_MiB, .max_bytes = capacity}}};
  memory.add(events);
  return memory.result();
}

std::vector<event> const program{allocation(512, 10_MiB), allocation(1024, 20_MiB), free_of(512),
                                 failure(15_MiB), free_of(1024)};

TEST(ReplayFailures, ARequestThatFailedIsTriedAgain) {
  for (strategy const placement : all_strategies) {
    SCOPED_TRACE(name_of(placement));
    auto const served = replay_of(program, placement, 48_MiB);
    EXPECT_TRUE(served.fits());
    EXPECT_EQ(served.recorded_failures, 1u);
    EXPECT_EQ(served.retried_failures, 1u);
    EXPECT_EQ(served.repeated_failures, 0u);
    EXPECT_EQ(served.peak_with_failures, 35_MiB);
    EXPECT_EQ(served.pool.peak_allocated, 35_MiB);
    EXPECT_EQ(served.pool.allocations_in_use, 0u) << "the memory is freed at once";
    auto const refused = replay_of(program, placement, 32_MiB);
    EXPECT_FALSE(refused.fits());
    EXPECT_EQ(refused.failures, 0u);
    EXPECT_EQ(refused.repeated_failures, 1u);
    EXPECT_EQ(refused.pool.peak_allocated, 30_MiB);
    ASSERT_TRUE(refused.first_failure.has_value());
    EXPECT_EQ(refused.first_failure->event, 3u);
    EXPECT_EQ(refused.first_failure->request, program[3]);
    EXPECT_EQ(refused.first_failure->pool.allocated, 20_MiB);
  }
}

TEST(ReplayFailures, UnlimitedMemoryIsNotTried) {
  for (strategy const placement : all_strategies) {
    SCOPED_TRACE(name_of(placement));
    auto const found = replay_of(program, placement, no_limit);
    EXPECT_TRUE(found.fits());
    EXPECT_EQ(found.recorded_failures, 1u);
    EXPECT_EQ(found.retried_failures, 0u);
    EXPECT_EQ(found.peak_with_failures, 35_MiB);
    EXPECT_EQ(found.pool.peak_allocated, 30_MiB);
  }
  auto const absurd =
      replay_of({allocation(512, 100), failure(~bytes{0} - 7)}, strategy::fast_fit, no_limit);
  EXPECT_EQ(absurd.peak_with_failures, ~bytes{0}) << "the sum has 64 bits";
}

TEST(ReplayFailures, RealMemoryIsTried) {
  any_resource upstream{host_resource{}};
  trace::replayer pool{{.upstream = &upstream}};
  pool.add(program);
  EXPECT_EQ(pool.result().retried_failures, 1u);
  EXPECT_EQ(pool.result().repeated_failures, 0u);
}

TEST(ReplayFailures, TheFirstFailureIsTheEarlierOne) {
  auto const found = replay_of({failure(9_MiB), allocation(512, 10_MiB), failure(11_MiB)},
                               strategy::fast_fit, 8_MiB);
  EXPECT_EQ(found.failures, 1u);
  EXPECT_EQ(found.repeated_failures, 2u);
  ASSERT_TRUE(found.first_failure.has_value());
  EXPECT_EQ(found.first_failure->event, 0u);
}

/// Reads the program.
class program_reader final : public trace::reader {
 public:
  std::size_t read(std::span<event> target) override {
    std::size_t const count = std::min(target.size(), program.size() - next_);
    std::copy_n(program.begin() + static_cast<std::ptrdiff_t>(next_), count, target.begin());
    next_ += count;
    return count;
  }
  trace::format file_format() const override { return trace::format::text; }

 private:
  std::size_t next_ = 0;
};

TEST(ReplayFailures, NoSettingFitsIfARecordedFailureFailsAgain) {
  auto const tuned = [](bytes capacity) {
    return trace::tune([] { return std::make_unique<program_reader>(); }, {.capacity = capacity});
  };
  auto const small = tuned(32_MiB);
  EXPECT_EQ(small.best, small.outcomes.size());
  EXPECT_EQ(small.recorded_failures, 1u);
  EXPECT_EQ(small.peak_with_failures, 35_MiB);
  auto const large = tuned(64_MiB);
  ASSERT_LT(large.best, large.outcomes.size());
  EXPECT_GE(large.outcomes[large.best].peak_reserved, 35_MiB);
}

/// Requests that succeed leave nothing behind: all other allocations of the replay are as without.
TEST(ReplayFailures, RandomFailuresChangeNoOtherResultOfTheDirectStrategy) {
  std::uint32_t const seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  std::vector<event> with, without;
  bytes live = 0, most = 0;
  std::map<std::uint64_t, bytes> sizes;
  for (int i = 0; i < 3000; ++i) {
    std::uint64_t const address = (random() % 100 + 1) * 512;
    bytes const size = random() % 5000;
    if (random() % 10 == 0) {
      with.push_back(failure(size));
      most = std::max(most, live + size);
      continue;
    }
    if (auto const old = sizes.find(address); old != sizes.end()) {
      live -= old->second;
      sizes.erase(old);
      without.push_back(free_of(address));
    } else {
      live += sizes[address] = size;
      without.push_back(allocation(address, size));
    }
    with.push_back(without.back());
  }
  auto const tried = replay_of(with, strategy::direct, 1_GiB);
  auto const plain = replay_of(without, strategy::direct, 1_GiB);
  EXPECT_EQ(tried.peak_with_failures, most);
  EXPECT_EQ(tried.retried_failures, with.size() - without.size());
  EXPECT_EQ(tried.pool.allocations_in_use, sizes.size());
  EXPECT_EQ(tried.pool.allocated, plain.pool.allocated);
  EXPECT_EQ(tried.pool.peak_allocated, std::max(plain.pool.peak_allocated, most));
  EXPECT_TRUE(tried.fits());
}

}  // namespace replay_failures_test
}  // namespace quarry::test
