// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/statistics_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {
namespace statistics_resource_test {

statistics_resource<host_resource> make() {
  return statistics_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("StatisticsResource", all{});

TEST(StatisticsResource, CountsTheCallsToItsUpstream) {
  auto source = make();
  void* const first = source.allocate(100, 16);
  void* const second = source.allocate(50, 16);
  source.deallocate(first, 100, 16);
  EXPECT_EQ(source.counts().allocated, 50);
  EXPECT_EQ(source.counts().peak_allocated, 150);
  EXPECT_EQ(source.counts().total_allocated, 150u);
  EXPECT_EQ(source.counts().allocations_in_use, 1);
  EXPECT_EQ(source.counts().peak_allocations, 2);
  source.deallocate(second, 50, 16);
}

TEST(StatisticsResource, CountsNoRefusedDeallocationAndNoNullPointer) {
  statistics_resource<pool<host_resource>> source{std::in_place, host_resource{}};
  void* const memory = source.allocate(100, 16);
  EXPECT_TRUE(source.deallocate(memory, 100, 16));
  EXPECT_FALSE(source.deallocate(memory, 100, 16));
  EXPECT_TRUE(source.deallocate(nullptr, 100, 16));
  EXPECT_EQ(source.counts().allocated, 0);
  EXPECT_EQ(source.counts().allocations_in_use, 0);
  EXPECT_EQ(source.counts().peak_allocated, 100);
}

TEST(StatisticsResource, CountsAPartOfTheProgramSeparately) {
  auto source = make();
  void* const outer = source.allocate(100, 16);
  source.push();
  void* const inner = source.allocate(30, 16);
  source.deallocate(outer, 100, 16);
  auto const part = source.pop();
  EXPECT_EQ(part.allocated, -70);
  EXPECT_EQ(part.peak_allocated, 30);
  EXPECT_EQ(source.counts().allocated, 30);
  EXPECT_EQ(source.counts().peak_allocated, 130);
  EXPECT_EQ(source.counts().total_allocations, 2u);
  source.deallocate(inner, 30, 16);
  EXPECT_THROW(source.pop(), bad_argument);
}

TEST(StatisticsResource, CountsAFailedCallOnlyAsAFailure) {
  statistics_resource<null_resource> source{null_resource{}};
  EXPECT_THROW((void)source.allocate(1, 16), out_of_memory);
  EXPECT_EQ(source.counts().failures, 1u);
  EXPECT_EQ(source.counts().allocated, 0);
  EXPECT_EQ(source.counts().total_allocations, 0u);
}

TEST(StatisticsResource, PassesStreamsOn) {
  statistics_resource<recording_source> source{recording_source{}};
  expect_calls_pass(source, *source.upstream().calls);
  EXPECT_EQ(source.counts().total_allocations, 3u);
  EXPECT_EQ(source.counts().total_allocated, 600u);
  EXPECT_EQ(source.counts().allocated, 0);
}

/// The counts as a stack of parts, each of which counts its own calls only.
class naive_counts {
 public:
  void allocate(bytes size) {
    resource_counts& part = parts_.back();
    part.allocated += static_cast<std::int64_t>(size);
    part.total_allocated += size;
    ++part.total_allocations;
    ++part.allocations_in_use;
    part.peak_allocated = std::max(part.peak_allocated, part.allocated);
    part.peak_allocations = std::max(part.peak_allocations, part.allocations_in_use);
  }
  void deallocate(bytes size) {
    parts_.back().allocated -= static_cast<std::int64_t>(size);
    --parts_.back().allocations_in_use;
  }
  void push() { parts_.emplace_back(); }
  resource_counts pop() {
    resource_counts const part = parts_.back();
    parts_.pop_back();
    resource_counts& outer = parts_.back();
    outer.peak_allocated = std::max(outer.peak_allocated, outer.allocated + part.peak_allocated);
    outer.peak_allocations =
        std::max(outer.peak_allocations, outer.allocations_in_use + part.peak_allocations);
    outer.allocated += part.allocated;
    outer.allocations_in_use += part.allocations_in_use;
    outer.total_allocated += part.total_allocated;
    outer.total_allocations += part.total_allocations;
    return part;
  }
  [[nodiscard]] resource_counts const& counts() const { return parts_.back(); }
  [[nodiscard]] std::size_t depth() const { return parts_.size(); }

 private:
  std::vector<resource_counts> parts_ = std::vector<resource_counts>(1);
};

void expect_equal(resource_counts const& found, resource_counts const& expected) {
  EXPECT_EQ(found.allocated, expected.allocated);
  EXPECT_EQ(found.peak_allocated, expected.peak_allocated);
  EXPECT_EQ(found.allocations_in_use, expected.allocations_in_use);
  EXPECT_EQ(found.peak_allocations, expected.peak_allocations);
  EXPECT_EQ(found.total_allocated, expected.total_allocated);
  EXPECT_EQ(found.total_allocations, expected.total_allocations);
  EXPECT_EQ(found.failures, expected.failures);
}

TEST(StatisticsResource, CountsNestedPartsLikeAStackOfCounts) {
  for (unsigned seed = 1; seed != 101; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    auto source = make();
    naive_counts expected;
    std::vector<std::pair<void*, bytes>> kept;
    for (int step = 0; step != 300 && !testing::Test::HasFailure(); ++step) {
      switch (random() % 6) {
        case 0:
        case 1:
        case 2: {
          bytes const size = random() % 100;
          kept.emplace_back(source.allocate(size, 16), size);
          expected.allocate(size);
          break;
        }
        case 3:
          if (kept.empty()) break;
          std::swap(kept[random() % kept.size()], kept.back());
          source.deallocate(kept.back().first, kept.back().second, 16);
          expected.deallocate(kept.back().second);
          kept.pop_back();
          break;
        case 4:
          source.push();
          expected.push();
          break;
        default:
          if (expected.depth() == 1) break;
          expect_equal(source.pop(), expected.pop());
      }
      expect_equal(source.counts(), expected.counts());
    }
    for (auto const& [pointer, size] : kept) source.deallocate(pointer, size, 16);
  }
}

TEST(StatisticsResource, CountsTheCallsOfSeveralThreads) {
  statistics_resource<limited_resource<host_resource>> source{
      limited_resource{host_resource{}, 1000}};
  constexpr int rounds = 3000;
  auto const work = [&] {
    for (int i = 0; i != rounds; ++i) {
      try {
        source.deallocate(source.allocate(600, 16), 600, 16);
      } catch (out_of_memory const&) {
      }
    }
  };
  resource_counts sum;
  std::thread other{work};
  for (int i = 0; i != 100; ++i) {
    source.push();
    auto const inner = source.counts();
    EXPECT_LE(inner.allocated, inner.peak_allocated);
    source.push();
    auto const part = source.pop();
    EXPECT_LE(part.allocated, part.peak_allocated);
    sum.total_allocations += source.pop().total_allocations;
  }
  work();
  other.join();
  auto const found = source.counts();
  EXPECT_EQ(found.allocated, 0);
  EXPECT_EQ(found.allocations_in_use, 0);
  EXPECT_EQ(found.total_allocations + found.failures, 2u * rounds);
  EXPECT_EQ(found.total_allocated, 600 * found.total_allocations);
  EXPECT_LE(sum.total_allocations, found.total_allocations);
  EXPECT_EQ(found.peak_allocated, 600) << "the limit is 1,000 bytes";
  EXPECT_EQ(found.peak_allocations, 1);
}

}  // namespace statistics_resource_test
}  // namespace quarry::test
