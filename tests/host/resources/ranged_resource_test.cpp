// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/ranged_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <memory>
#include <string>
#include <vector>

namespace quarry::test {
namespace ranged_resource_test {

/// Records the ranges that a profiler would show.
struct recorded_ranges {
  void push(char const* name) noexcept {
    shown->push_back(name);
    ++*depth;
  }
  void pop() noexcept { --*depth; }
  std::shared_ptr<std::vector<std::string>> shown = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<int> depth = std::make_shared<int>(0);
};
static_assert(profiler_ranges<recorded_ranges>);

ranged_resource<host_resource, recorded_ranges> make() {
  return {host_resource{}, recorded_ranges{}, "host"};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("RangedResource", all{});

TEST(RangedResource, ShowsEachCallAsARangeOfItsOwn) {
  recorded_ranges const ranges;
  ranged_resource first{host_resource{}, ranges, "first"};
  ranged_resource<synchronized_resource<pool<host_resource>>, recorded_ranges> second{
      ranges, "second", std::in_place, host_resource{}};
  void* const first_memory = first.allocate(100, 16);
  void* const second_memory = second.allocate(100, 16);
  second.deallocate(second_memory, 100, 16);
  first.deallocate(first_memory, 100, 16);
  EXPECT_EQ(*ranges.shown, (std::vector<std::string>{"first allocate", "second allocate",
                                                     "second deallocate", "first deallocate"}));
  EXPECT_EQ(*ranges.depth, 0);
}

TEST(RangedResource, EndsTheRangeOfACallThatFails) {
  recorded_ranges const ranges;
  ranged_resource source{null_resource{}, ranges, "none"};
  EXPECT_THROW((void)source.allocate(1, 16), out_of_memory);
  EXPECT_EQ(*ranges.shown, std::vector<std::string>{"none allocate"});
  EXPECT_EQ(*ranges.depth, 0);
}

TEST(RangedResource, PassesStreamsOn) {
  recorded_ranges const ranges;
  ranged_resource source{recording_source{}, ranges, "pool"};
  expect_calls_pass(source, *source.upstream().calls);
  EXPECT_EQ(*ranges.shown,
            (std::vector<std::string>{"pool allocate", "pool allocate", "pool allocate",
                                      "pool deallocate", "pool deallocate", "pool deallocate"}));
  EXPECT_EQ(*ranges.depth, 0);
}

}  // namespace ranged_resource_test
}  // namespace quarry::test
