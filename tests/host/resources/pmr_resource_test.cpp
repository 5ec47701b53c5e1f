// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/pmr_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <cstring>
#include <list>
#include <string>

namespace quarry::test {
namespace pmr_resource_test {

pmr_resource make() { return pmr_resource{}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("PmrResource", all{});

TEST(AsPmrResource, ServesContainersOfStdPmr) {
  pool<host_resource> source{host_resource{}};
  {
    as_pmr_resource standard{source};
    as_pmr_resource view{source};
    pool<host_resource> other_pool{host_resource{}};
    as_pmr_resource other{other_pool};
    EXPECT_TRUE(standard == view);
    EXPECT_FALSE(standard == other);
    std::pmr::map<int, std::pmr::string> names{&standard};
    for (int i = 0; i < 1000; ++i) names[i] = std::string(static_cast<std::size_t>(i % 100), 'x');
    EXPECT_GT(source.counts().allocations_in_use, 1000u);
    EXPECT_EQ(names[99].size(), 99u);
  }
  EXPECT_EQ(source.counts().allocated, 0u);
}

TEST(AsPmrResource, ServesTypesOfLargeAlignment) {
  struct alignas(64) line {
    char content[64];
  };
  pool<host_resource> source{host_resource{}};
  {
    as_pmr_resource standard{source};
    std::pmr::vector<line> lines{100, &standard};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % 64, 0u);
    std::pmr::unsynchronized_pool_resource pools{&standard};
    for (bytes const size : {bytes{8}, bytes{300}, bytes{5000}, bytes{1} << 20}) {
      void* const memory = pools.allocate(size, 64);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
      std::memset(memory, 1, size);
      pools.deallocate(memory, size, 64);
    }
  }
  EXPECT_EQ(source.counts().allocated, 0u);
}

TEST(OwningPmrResource, IsOneObjectInPlaceOfAPoolOfStdPmr) {
  using shared_pool = synchronized_resource<pool<host_resource>>;
  static_assert(!std::is_copy_constructible_v<owning_pmr_resource<shared_pool>>);
  static_assert(!std::is_constructible_v<owning_pmr_resource<pool<host_resource>>, char const*>);
  owning_pmr_resource<shared_pool> memory{host_resource{}, pool_options{.max_bytes = 1 << 20}};
  {
    std::pmr::vector<std::pmr::string> names{&memory};
    for (int i = 0; i < 100; ++i) names.emplace_back(static_cast<std::size_t>(i), 'x');
    EXPECT_EQ(names[99].size(), 99u);
    as_pmr_resource view{memory.resource()};
    EXPECT_TRUE(memory == view);
    EXPECT_GT(memory.resource().with([](auto& source) { return source.counts().allocated; }), 0u);
  }
  EXPECT_EQ(memory.resource().with([](auto& source) { return source.counts().allocated; }), 0u);
  EXPECT_THROW((void)memory.allocate(2 << 20), std::bad_alloc);
}

TEST(ResourceAllocator, ServesTheStandardsContainers) {
  pool<host_resource> source{host_resource{}};
  {
    std::vector<int, resource_allocator<int, pool<host_resource>>> numbers{
        resource_allocator<int, pool<host_resource>>{source}};
    for (int i = 0; i < 10'000; ++i) numbers.push_back(i);
    std::list<double, resource_allocator<double, pool<host_resource>>> list{
        resource_allocator<double, pool<host_resource>>{source}};
    list.assign(100, 1.5);
    EXPECT_EQ(numbers[9999], 9999);
    EXPECT_EQ(source.counts().allocations_in_use, 101u);
    EXPECT_THROW((void)numbers.get_allocator().allocate(~std::size_t{0}),
                 std::bad_array_new_length);
  }
  EXPECT_EQ(source.counts().allocated, 0u);
}

}  // namespace pmr_resource_test
}  // namespace quarry::test
