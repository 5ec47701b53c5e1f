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
INSTANTIATE_TYPED_TEST_SUITE_P(AnyResource, ResourceConformance, all);

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

TEST(AnyResource, ReleaseEmptiesTheCacheOfItsResource) {
  host_resource host;
  any_resource caching{size_cache_resource<host_resource>{host, 4}};
  any_resource other{host};
  void* const a = caching.allocate(100, 16);
  caching.deallocate(a, 100, 16);
  EXPECT_EQ(caching.allocate(100, 16), a) << "the cache kept the memory";
  caching.deallocate(a, 100, 16);
  caching.release();
  other.release();
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
