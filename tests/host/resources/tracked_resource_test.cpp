// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/tracked_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/noted_source.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace quarry::test {
namespace tracked_resource_test {

tracked_resource<host_resource> make_tracked() {
  return tracked_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make_tracked, true>, pooled<&make_tracked, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(TrackedResource, ResourceConformance, all);

TEST(TrackedResource, MakesItsAllocationsKnown) {
  tracked_resource<host_resource> source{host_resource{}, "plain"};
  for (bytes const size : {bytes{0}, bytes{1}, bytes{100}, bytes{100'000}, bytes{10'000'000}}) {
    void* const one = source.allocate(size, 8);
    ASSERT_TRUE(source.label(one, "it"));
    auto const found = registry::find(static_cast<char*>(one) + size / 2);
    ASSERT_TRUE(found) << size;
    EXPECT_EQ(found->base, one);
    EXPECT_EQ(found->size, size);
    EXPECT_EQ(registry::name_of(found->allocator), "plain");
    EXPECT_EQ(registry::label_of(one)->name, "it");
    source.deallocate(one, size, 8);
    EXPECT_FALSE(registry::find(one));
  }
}

TEST(TrackedResource, IgnoresWhatItDidNotGive) {
  tracked_resource<host_resource> source{host_resource{}};
  int local = 0;
  source.deallocate(&local, 4, 4);
  void* const one = source.allocate(100, 16);
  source.deallocate(one, 99, 16);
  EXPECT_TRUE(registry::find(one));
  source.deallocate(one, 100, 16);
  EXPECT_EQ(source.invalid_frees(), 2u);
  EXPECT_FALSE(source.label(&local, "local"));
}

/// A pool as a resource that moves.
struct pool_below {
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return pool_->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)pool_->deallocate(pointer); }
  pool<host_resource>* pool_;
};

/// Both have a record of the same bytes.
TEST(TrackedResource, IsFoundOverAPoolAndOverAnother) {
  pool below{host_resource{}, {.first_block = 1 << 20}};
  tracked_resource<pool_below> over_pool{pool_below{&below}};
  tracked_resource<tracked_resource<host_resource>> over_other{
      tracked_resource<host_resource>{host_resource{}}};
  void* const own = below.allocate(64);
  for (bytes const size : {bytes{0}, bytes{100}, bytes{100'000}}) {
    void* const a = over_pool.allocate(size, 8);
    void* const b = over_other.allocate(size, 8);
    EXPECT_EQ(registry::find(static_cast<char*>(a) + size / 2)->allocator, over_pool.id());
    EXPECT_EQ(registry::find(static_cast<char*>(b) + size / 2)->allocator, over_other.id());
    EXPECT_EQ(registry::find(own)->allocator, below.id());
    EXPECT_EQ(registry::find(own)->location, memory_location{});
    over_pool.deallocate(a, size, 8);
    over_other.deallocate(b, size, 8);
    EXPECT_FALSE(registry::find(a));
    EXPECT_FALSE(registry::find(b));
  }
  below.deallocate(own);
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
  tracked_resource<host_resource> source{host_resource{}};
  std::vector<std::thread> threads;
  for (bytes number = 1; number <= 3; ++number) {
    threads.emplace_back([&source, number] {
      for (bytes i = 0; i < 300; ++i) {
        bytes const size = 1 + (i * number) % 500;
        void* const one = source.allocate(size, 16);
        auto const found = registry::find(static_cast<char*>(one) + size - 1);
        ASSERT_TRUE(found && found->base == one && found->size == size);
        source.deallocate(one, size, 16);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(registry::allocations(source.id()).empty());
}

TEST(TrackedResource, PassesStreamsOn) {
  tracked_resource<noted_source> source{noted_source{}};
  expect_calls_pass(source, *source.upstream().calls);
  void* const one = source.allocate(100, 16, cuda_stream{});
  void* const other = source.allocate_sync(200, 16);
  EXPECT_EQ(registry::find(one)->size, 100u);
  EXPECT_EQ(registry::find(other)->size, 200u);
  source.deallocate(one, 100, 16, cuda_stream{});
  source.deallocate_sync(other, 200, 16);
  source.deallocate_sync(other, 200, 16);
  EXPECT_EQ(source.invalid_frees(), 1u);
}

}  // namespace tracked_resource_test
}  // namespace quarry::test
