// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/any_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/file_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"

namespace quarry::test {
namespace any_resource_test {

any_resource make() { return any_resource{host_resource{}}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("AnyResource", all{});

TEST(AnyResource, ForwardsEachCallToItsResource) {
  any_resource first{limited_resource<host_resource>{host_resource{}, 100}};
  any_resource second{file_resource{testing::TempDir()}};
  EXPECT_EQ(first.location().kind, memory_kind::host);
  EXPECT_EQ(second.location().kind, memory_kind::file);
  void* const a = first.allocate(60, 16);
  EXPECT_THROW((void)first.allocate(60, 16), out_of_memory);
  std::swap(first, second);
  EXPECT_EQ(first.location().kind, memory_kind::file);
  second.deallocate(a, 60, 16);
  second.deallocate(second.allocate(100, 16), 100, 16);
}

/// Memory of the host. Counts the bytes that are allocated, for a test that no longer sees the
/// resource.
struct counted_host {
  bytes* allocated;
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    *allocated += size;
    return host_resource{}.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    *allocated -= size;
    host_resource{}.deallocate(pointer, size, alignment);
  }
};

TEST(AnyResource, ReleaseEmptiesTheCacheOfItsResource) {
  bytes allocated = 0;
  any_resource caching{size_cache_resource<counted_host>{counted_host{&allocated}, 4}};
  void* const a = caching.allocate(100, 16);
  caching.deallocate(a, 100, 16);
  EXPECT_EQ(allocated, 100u) << "the cache keeps the memory";
  EXPECT_EQ(caching.reserved(), 100u);
  EXPECT_EQ(caching.allocate(100, 16), a);
  caching.deallocate(a, 100, 16);
  caching.release();
  EXPECT_EQ(allocated, 0u) << "the upstream did not get its memory back";
  EXPECT_EQ(caching.reserved(), 0u);
}

TEST(AnyResource, ReleaseChangesNothingWithoutACache) {
  bytes allocated = 0;
  any_resource other{counted_host{&allocated}};
  void* const a = other.allocate(100, 16);
  other.release();
  EXPECT_EQ(allocated, 100u);
  other.deallocate(a, 100, 16);
  EXPECT_EQ(allocated, 0u);
}

struct synchronizes {
  int* count;
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return host_resource{}.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    host_resource{}.deallocate(pointer, size, alignment);
  }
  void synchronize() { ++*count; }
};

TEST(AnyResource, PassesSynchronizeToItsResource) {
  int count = 0;
  pool above{any_resource{synchronizes{&count}}};
  (void)above.allocate(10);
  EXPECT_EQ(count, 1);
}

}  // namespace any_resource_test
}  // namespace quarry::test
