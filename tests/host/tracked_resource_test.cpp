// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/tracked_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/host_resource.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace quarry::test {
namespace {

tracked_resource<host_resource> make_tracked() {
  return tracked_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make_tracked, true>, pooled<&make_tracked, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(TrackedResource, ResourceConformance, all);

TEST(TrackedResource, MakesItsAllocationsKnown) {
  tracked_resource<host_resource> from{host_resource{}, "plain"};
  for (bytes const size : {bytes{0}, bytes{1}, bytes{100}, bytes{100'000}, bytes{10'000'000}}) {
    void* const one = from.allocate(size, 8);
    ASSERT_TRUE(from.note(one, "it"));
    auto const found = registry::find(static_cast<char*>(one) + size / 2);
    ASSERT_TRUE(found) << size;
    EXPECT_EQ(found->begin, one);
    EXPECT_EQ(found->size, size);
    EXPECT_EQ(registry::name_of(found->allocator), "plain");
    EXPECT_EQ(registry::note_of(one)->name, "it");
    from.deallocate(one, size, 8);
    EXPECT_FALSE(registry::find(one));
  }
}

TEST(TrackedResource, IgnoresWhatItDidNotGive) {
  tracked_resource<host_resource> from{host_resource{}};
  int local = 0;
  from.deallocate(&local, 4, 4);
  void* const one = from.allocate(100, 16);
  from.deallocate(one, 99, 16);
  EXPECT_TRUE(registry::find(one));
  from.deallocate(one, 100, 16);
  EXPECT_EQ(from.refused(), 2u);
  EXPECT_FALSE(from.note(&local, "local"));
}

TEST(TrackedResource, RefusesTheSixtyFifth) {
  std::vector<std::unique_ptr<tracked_resource<host_resource>>> many;
  EXPECT_THROW(
      {
        for (int i = 0; i < 65; ++i)
          many.push_back(std::make_unique<tracked_resource<host_resource>>(host_resource{}));
      },
      bad_argument);
  many.pop_back();
  EXPECT_NO_THROW(
      many.push_back(std::make_unique<tracked_resource<host_resource>>(host_resource{})));
}

TEST(TrackedResource, MayBeSharedByThreads) {
  tracked_resource<host_resource> from{host_resource{}};
  std::vector<std::thread> threads;
  for (bytes number = 1; number <= 3; ++number) {
    threads.emplace_back([&from, number] {
      for (bytes i = 0; i < 300; ++i) {
        bytes const size = 1 + (i * number) % 500;
        void* const one = from.allocate(size, 16);
        auto const found = registry::find(static_cast<char*>(one) + size - 1);
        ASSERT_TRUE(found && found->begin == one && found->size == size);
        from.deallocate(one, size, 16);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(registry::live(from.id()).empty());
}

}  // namespace
}  // namespace quarry::test
