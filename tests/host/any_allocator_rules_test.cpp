// SPDX-License-Identifier: Apache-2.0
// Calls of allocators in the rule of an allocator's heuristic.
#include "host/scoped_allocator.hpp"
#include "quarry/host/any_allocator.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace quarry::test {
namespace any_allocator_rules_test {

using namespace quarry::literals;

/// An allocator whose heuristic rule runs the `work` that a test sets.
struct ruled {
  explicit ruled(char const* name)
      : allocator{allocators::make_pool(
            name, host_resource{},
            {.first_block = 64_KiB, .next_block = 64_KiB, .coalesce = heuristic::by_rule(rule)})} {}
  std::function<void()> work = [] {};
  std::atomic<int> times{0};
  struct rule_call {
    ruled* owner;
    bytes operator()(pool_state const&) {
      ++owner->times;
      owner->work();
      return 0;
    }
  } rule{this};
  scoped_allocator allocator;
};
std::string refusal_of(std::function<void()> const& work) {
  try {
    work();
  } catch (bad_argument const& failure) {
    return failure.message();
  }
  return "was not refused";
}

/// A pool takes a block by a call on an older allocator. The opposite order could make two threads
/// wait for each other.
TEST(AnyAllocator, RefusesCallsFromWithinACallOnAnOlderAllocator) {
  ruled low{"low"};
  scoped_allocator const high{allocators::make_pool("high", low.allocator.handle)};
  scoped_allocator const unrelated{allocators::make_pool("unrelated", host_resource{})};
  void* const kept = low.allocator.handle.allocate(10);
  any_allocator upper = high.handle;
  any_allocator other = unrelated.handle;
  ASSERT_TRUE(upper.deallocate(upper.allocate(100)));
  std::vector<std::string> refusals;
  bool is_freed = true, is_alive = false;
  low.work = [&] {
    for (any_allocator each : {upper, other}) {
      refusals.push_back(refusal_of([&] { (void)each.counts(); }));
      refusals.push_back(refusal_of([&] { each.release(); }));
      refusals.push_back(refusal_of([&] { (void)each.allocate(10); }));
      refusals.push_back(refusal_of([&] { (void)each.as_resource(); }));
    }
    is_freed = upper.deallocate(&refusals);
    is_alive = upper.is_alive() && low.allocator.handle.is_alive();
  };
  EXPECT_TRUE(low.allocator.handle.deallocate(kept));
  low.work = [] {};
  EXPECT_EQ(low.times, 1);
  EXPECT_EQ(refusals.size(), 8u);
  for (auto const& each : refusals)
    EXPECT_NE(each.find("younger than one that is in a call of this thread"), std::string::npos)
        << each;
  EXPECT_FALSE(is_freed);
  EXPECT_TRUE(is_alive);
  upper.release();
  EXPECT_EQ(low.allocator.handle.counts().allocations_in_use, 0u)
      << "a pool may call an older allocator";
}

/// A free cannot throw, and must not wait.
TEST(AnyAllocator, FreesBlocksThatARuleReturnsAfterTheCall) {
  ruled low{"low"};
  scoped_allocator const high{allocators::make_pool("high", host_resource{})};
  {
    pool over_low{low.allocator.handle.as_resource(), {.first_block = 4_KiB}};
    pool over_high{high.handle.as_resource(), {.first_block = 4_KiB}};
    for (auto* each : {&over_low, &over_high}) EXPECT_TRUE(each->deallocate(each->allocate(100)));
    void* const kept = low.allocator.handle.allocate(10);
    EXPECT_EQ(low.allocator.handle.counts().allocations_in_use, 2u);
    EXPECT_EQ(high.handle.counts().allocations_in_use, 1u);
    low.work = [&] {
      over_low.release();
      over_high.release();
    };
    EXPECT_TRUE(low.allocator.handle.deallocate(kept));
    EXPECT_EQ(low.times, 2) << "one more time for the block";
    EXPECT_EQ(low.allocator.handle.counts().allocations_in_use, 0u);
    EXPECT_EQ(high.handle.counts().allocations_in_use, 0u);
    low.work = [] {};
  }
}

/// The first thread locks the upper allocator and then the lower allocator. The second thread calls
/// the upper allocator from the lower allocator's rule.
TEST(AnyAllocator, ThreadsDoNotDeadlock) {
  static thread_local bool is_second = false;
  ruled low{"low"};
  scoped_allocator const high{allocators::make_pool("high", low.allocator.handle,
                                                    {.first_block = 4_KiB, .next_block = 4_KiB})};
  std::atomic<int> refused{0}, returned{0};
  {
    pool of_second{high.handle.as_resource(), {.first_block = 64_KiB, .next_block = 64_KiB}};
    low.work = [&] {
      if (!is_second) return;
      refused += !refusal_of([&] { high.handle.release(); }).starts_with("was not");
      returned += of_second.counts().reserved != 0;
      of_second.release();
    };
    std::thread first{[&] {
      for (int i = 0; i < 500; ++i) {
        void* const a = high.handle.allocate(8_KiB);
        EXPECT_TRUE(high.handle.deallocate(a));
        high.handle.release();
      }
    }};
    std::thread second{[&] {
      is_second = true;
      for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(of_second.deallocate(of_second.allocate(100)));
        EXPECT_TRUE(low.allocator.handle.deallocate(low.allocator.handle.allocate(10)));
      }
    }};
    first.join();
    second.join();
    low.work = [] {};
  }
  high.handle.release();
  EXPECT_GE(refused, 500);
  EXPECT_GE(returned, 500);
  EXPECT_EQ(high.handle.counts().allocations_in_use, 0u);
  EXPECT_EQ(low.allocator.handle.counts().allocations_in_use, 0u);
}

TEST(AnyAllocator, IsNotDestroyedByARule) {
  ruled low{"low"};
  scoped_allocator const high{allocators::make_pool("high", low.allocator.handle)};
  scoped_allocator const unrelated{allocators::make_pool("unrelated", host_resource{})};
  std::vector<std::string> refusals;
  low.work = [&] {
    for (char const* const name : {"low", "high", "unrelated", "none"})
      refusals.push_back(refusal_of([&] { allocators::destroy(name); }));
  };
  EXPECT_TRUE(low.allocator.handle.deallocate(low.allocator.handle.allocate(10)));
  low.work = [] {};
  EXPECT_EQ(refusals.size(), 4u);
  for (auto const& each : refusals)
    EXPECT_NE(each.find("cannot be destroyed from within a call"), std::string::npos) << each;
  EXPECT_EQ(allocators::names(), (std::vector<std::string>{"high", "low", "unrelated"}));
}

}  // namespace any_allocator_rules_test
}  // namespace quarry::test
