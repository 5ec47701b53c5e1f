// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/tracked_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace quarry::test {
namespace tracked_resource_test {

tracked_resource<host_resource> make_tracked() {
  return tracked_resource<host_resource>{host_resource{}};
}
using all = testing::Types<alone<&make_tracked, true>, pooled<&make_tracked, true, fast_fit>>;
bool const is_registered = conforms("TrackedResource", all{});

TEST(TrackedResource, RegistersItsAllocations) {
  tracked_resource<host_resource> source{host_resource{}, "plain"};
  for (bytes const size : {bytes{0}, bytes{1}, bytes{100}, bytes{100'000}, bytes{10'000'000}}) {
    void* const memory = source.allocate(size, 8);
    ASSERT_TRUE(source.label(memory, "it"));
    auto const found = registry::find(static_cast<char*>(memory) + size / 2);
    ASSERT_TRUE(found) << size;
    EXPECT_EQ(found->base, memory);
    EXPECT_EQ(found->size, size);
    EXPECT_EQ(registry::name_of(found->allocator), "plain");
    EXPECT_EQ(registry::label_of(memory)->name, "it");
    source.deallocate(memory, size, 8);
    EXPECT_FALSE(registry::find(memory));
  }
}

TEST(TrackedResource, HasNoLimitOfTheirNumber) {
  constexpr int count = 300;
  std::vector<std::unique_ptr<tracked_resource<host_resource>>> sources;
  std::vector<void*> memory;
  for (int round = 0; round < 2; ++round) {  // the second round reuses the registry's entries
    for (int i = 0; i < count; ++i) {
      sources.push_back(std::make_unique<tracked_resource<host_resource>>(host_resource{}));
      memory.push_back(sources.back()->allocate(100, 16));
    }
    for (int i = 0; i < count; ++i) {
      auto const found = registry::find(static_cast<char*>(memory[std::size_t(i)]) + 50);
      ASSERT_TRUE(found) << i;
      ASSERT_EQ(found->allocator, sources[std::size_t(i)]->id());
    }
    for (std::size_t i = 0; i < count; ++i) sources[i]->deallocate(memory[i], 100, 16);
    EXPECT_FALSE(registry::find(memory.front()));
    sources.clear();
    memory.clear();
  }
}

TEST(TrackedResource, IgnoresForeignAddresses) {
  tracked_resource<host_resource> source{host_resource{}};
  int local = 0;
  source.deallocate(&local, 4, 4);
  void* const memory = source.allocate(100, 16);
  source.deallocate(memory, 99, 16);
  EXPECT_TRUE(registry::find(memory));
  source.deallocate(memory, 100, 16);
  EXPECT_EQ(source.invalid_frees(), 2u);
  EXPECT_FALSE(source.label(&local, "local"));
}

/// A movable resource that refers to a pool.
struct pool_below {
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return pool_->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)pool_->deallocate(pointer); }
  pool<host_resource>* pool_;
};

/// The upper and the lower allocator both register the same bytes.
TEST(TrackedResource, IsFoundOverAPoolAndOverAnotherTrackedResource) {
  pool below{host_resource{}, {.first_block = 1 << 20}};
  tracked_resource<pool_below> over_pool{pool_below{&below}};
  tracked_resource<tracked_resource<host_resource>> over_other{
      tracked_resource<host_resource>{host_resource{}}};
  void* const pool_memory = below.allocate(64);
  for (bytes const size : {bytes{0}, bytes{100}, bytes{100'000}}) {
    void* const a = over_pool.allocate(size, 8);
    void* const b = over_other.allocate(size, 8);
    EXPECT_EQ(registry::find(static_cast<char*>(a) + size / 2)->allocator, over_pool.id());
    EXPECT_EQ(registry::find(static_cast<char*>(b) + size / 2)->allocator, over_other.id());
    EXPECT_EQ(registry::find(pool_memory)->allocator, below.id());
    EXPECT_EQ(registry::find(pool_memory)->location, memory_location{});
    over_pool.deallocate(a, size, 8);
    over_other.deallocate(b, size, 8);
    EXPECT_FALSE(registry::find(a));
    EXPECT_FALSE(registry::find(b));
  }
  below.deallocate(pool_memory);
}

TEST(TrackedResource, MayBeSharedByThreads) {
  tracked_resource<host_resource> source{host_resource{}};
  std::vector<std::thread> threads;
  for (bytes number = 1; number <= 3; ++number) {
    threads.emplace_back([&source, number] {
      for (bytes i = 0; i < 300; ++i) {
        bytes const size = 1 + (i * number) % 500;
        void* const memory = source.allocate(size, 16);
        auto const found = registry::find(static_cast<char*>(memory) + size - 1);
        ASSERT_TRUE(found && found->base == memory && found->size == size);
        source.deallocate(memory, size, 16);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(registry::allocations(source.id()).empty());
}

TEST(TrackedResource, PassesStreamsOn) {
  tracked_resource<recording_source> source{recording_source{}};
  expect_calls_pass(source, *source.upstream().calls);
  void* const first = source.allocate(100, 16, cuda_stream{});
  void* const second = source.allocate_sync(200, 16);
  EXPECT_EQ(registry::find(first)->size, 100u);
  EXPECT_EQ(registry::find(second)->size, 200u);
  source.deallocate(first, 100, 16, cuda_stream{});
  source.deallocate_sync(second, 200, 16);
  source.deallocate_sync(second, 200, 16);
  EXPECT_EQ(source.invalid_frees(), 1u);
}

}  // namespace tracked_resource_test
}  // namespace quarry::test
