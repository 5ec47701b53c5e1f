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

TEST(AnyResource, IsWhatWasPutIntoIt) {
  any_resource one{limited_resource<host_resource>{host_resource{}, 100}};
  any_resource other{file_resource{testing::TempDir()}};
  EXPECT_EQ(one.location().kind, memory_kind::host);
  EXPECT_EQ(other.location().kind, memory_kind::file);
  void* const a = one.allocate(60, 16);
  EXPECT_THROW((void)one.allocate(60, 16), out_of_memory);
  std::swap(one, other);
  EXPECT_EQ(one.location().kind, memory_kind::file);
  other.deallocate(a, 60, 16);
  other.deallocate(other.allocate(100, 16), 100, 16);
}

TEST(AnyResource, ReturnsWhatItsResourceKeeps) {
  host_resource host;
  any_resource keeps{size_cache_resource<host_resource>{host, 4}};
  any_resource other{host};
  void* const a = keeps.allocate(100, 16);
  keeps.deallocate(a, 100, 16);
  EXPECT_EQ(keeps.allocate(100, 16), a) << "it was kept";
  keeps.deallocate(a, 100, 16);
  keeps.release();
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

TEST(AnyResource, LetsItsPoolWaitForTheResource) {
  int count = 0;
  pool above{any_resource{synchronizes{&count}}};
  (void)above.allocate(10);
  EXPECT_EQ(count, 1);
}

}  // namespace any_resource_test
}  // namespace quarry::test
