// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/size_cache_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {
namespace size_cache_resource_test {

size_cache_resource<host_resource> make_slots() { return {host_resource{}, 8}; }
using all = testing::Types<alone<&make_slots, true>, pooled<&make_slots, true, fast_fit>>;
bool const is_registered = conforms("SizeCacheResource", all{});

TEST(SizeCacheResource, KeepsFreedMemoryForRequestsOfExactlyItsSize) {
  size_cache_resource<simulated_resource> source{simulated_resource{}, 2};
  void* const memory = source.allocate(1000, 64);
  source.deallocate(memory, 1000, 64);
  EXPECT_NE(source.allocate(999, 64), memory);
  EXPECT_EQ(source.allocate(1000, 64), memory);
  EXPECT_EQ(source.upstream().allocations(), 2u);
}

TEST(SizeCacheResource, RefusesADoubleFree) {
  size_cache_resource<simulated_resource> source{simulated_resource{}, 4};
  void* const memory = source.allocate(1000, 64);
  source.deallocate(memory, 1000, 64);
  source.deallocate(memory, 1000, 64);
  source.deallocate(memory, 500, 16);
  source.deallocate(nullptr, 1000, 64);
  EXPECT_EQ(source.invalid_frees(), 3u);
  EXPECT_EQ(source.kept(), 1u);
  EXPECT_EQ(source.allocate(1000, 64), memory);
  EXPECT_NE(source.allocate(1000, 64), memory);
}

TEST(SizeCacheResource, ReturnsTheOldestSlotToTheUpstreamWhenItIsFull) {
  size_cache_resource<simulated_resource> source{simulated_resource{}, 2};
  void* const memory[3] = {source.allocate(1, 16), source.allocate(2, 16), source.allocate(3, 16)};
  for (bytes size = 1; size <= 3; ++size) source.deallocate(memory[size - 1], size, 16);
  EXPECT_EQ(source.kept(), 2u);
  EXPECT_EQ(source.upstream().reserved(), 5u);
  source.release();
  EXPECT_EQ(source.upstream().reserved(), 0u);
}

TEST(SizeCacheResource, ReturnsItsCacheBeforeAnAllocationFails) {
  size_cache_resource<simulated_resource> source{simulated_resource{1000}, 4};
  source.deallocate(source.allocate(900, 16), 900, 16);
  EXPECT_NE(source.allocate(901, 16), nullptr);
  EXPECT_THROW((void)source.allocate(901, 16), out_of_memory);
}

TEST(SizeCacheResource, RefusesZeroSlotsAndTooManySlots) {
  EXPECT_THROW((size_cache_resource<host_resource>{host_resource{}, 0}), bad_argument);
  EXPECT_THROW((size_cache_resource<host_resource>{host_resource{}, 1025}), bad_argument);
}

}  // namespace size_cache_resource_test
}  // namespace quarry::test
