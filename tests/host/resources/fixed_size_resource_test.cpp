// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/fixed_size_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {
namespace fixed_size_resource_test {

fixed_size_resource<host_resource> make() { return {host_resource{}, 100'000, 8, 64}; }
using all = testing::Types<alone<&make, true>>;
bool const is_registered = conforms("FixedSizeResource", all{});

TEST(FixedSizeResource, FillsABlockBeforeItTakesAnother) {
  fixed_size_resource<simulated_resource> source{simulated_resource{}, 40, 70, 16};
  std::set<void*> slots;
  for (int i = 0; i < 70; ++i) slots.insert(source.allocate(40, 16));
  EXPECT_EQ(slots.size(), 70u);
  EXPECT_EQ(source.reserved(), 70u * 48);
  (void)source.allocate(1, 16);
  EXPECT_EQ(source.reserved(), 140u * 48);
  source.deallocate(*slots.begin(), 40, 16);
  EXPECT_EQ(source.allocated(), 70u);
}

TEST(FixedSizeResource, RefusesARequestLargerThanASlot) {
  EXPECT_THROW((void)make().allocate(100'033, 16), out_of_memory);
}

TEST(FixedSizeResource, RefusesSizesThatNoResourceCanServe) {
  EXPECT_THROW((fixed_size_resource<host_resource>{host_resource{}, bytes{1} << 54, 1024}),
               bad_argument);
  EXPECT_THROW((fixed_size_resource<host_resource>{host_resource{}, ~bytes{0}, 1}), bad_argument);
  EXPECT_THROW((fixed_size_resource<host_resource>{host_resource{}, bytes{1} << 40, 1024}),
               bad_argument);
}

TEST(FixedSizeResource, ChangesNothingForADoubleFreeOrAForeignPointer) {
  fixed_size_resource<simulated_resource> source{simulated_resource{}, 16, 64, 16};
  auto* const memory = static_cast<char*>(source.allocate(16, 16));
  source.deallocate(memory + 8, 16, 16);
  source.deallocate(memory + 16, 16, 16);
  source.deallocate(nullptr, 16, 16);
  EXPECT_EQ(source.allocated(), 1u);
  source.deallocate(memory, 16, 16);
  source.deallocate(memory, 16, 16);
  EXPECT_EQ(source.allocated(), 0u);
  EXPECT_EQ(source.allocate(16, 16), memory);
}

TEST(FixedSizeResource, IsUnchangedWhenItsUpstreamFails) {
  fixed_size_resource<simulated_resource> source{simulated_resource{1024}, 16, 64, 16};
  std::vector<void*> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(source.allocate(16, 16));
  EXPECT_THROW((void)source.allocate(16, 16), out_of_memory);
  EXPECT_EQ(source.allocated(), 64u);
  source.deallocate(slots[30], 16, 16);
  EXPECT_EQ(source.allocate(16, 16), slots[30]);
}

}  // namespace fixed_size_resource_test
}  // namespace quarry::test
