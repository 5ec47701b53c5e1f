// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/binned_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {
namespace binned_resource_test {

using bins = binned_resource<host_resource, host_resource>;
bins make() {
  return {[] { return host_resource{}; }, host_resource{}, 16, 1024};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("BinnedResource", all{});

TEST(BinnedResource, TakesSmallSizesFromSlotsAndLargeOnesFromThePool) {
  binned_resource<simulated_resource, simulated_resource> source{
      [] { return simulated_resource{}; }, simulated_resource{}, 64, 256, 4};
  (void)source.allocate(256, 16);
  EXPECT_EQ(source.large().reserved(), 0u);
  void* const large = source.allocate(257, 16);
  EXPECT_EQ(source.large().reserved(), 257u);
  source.deallocate(large, 257, 16);
  EXPECT_EQ(source.large().reserved(), 0u);
}

/// As a pool's deallocate does, that of this one returns whether it has freed.
TEST(BinnedResource, TakesLargeSizesFromAResourceWhoseDeallocateReturnsABool) {
  struct answering_resource : simulated_resource {
    bool deallocate(void* pointer, bytes size, bytes alignment) noexcept {
      simulated_resource::deallocate(pointer, size, alignment);
      return true;
    }
  };
  binned_resource<simulated_resource, answering_resource> source{
      [] { return simulated_resource{}; }, answering_resource{}, 16, 64};
  void* const large = source.allocate(1000, 16);
  EXPECT_EQ(source.large().reserved(), 1000u);
  source.deallocate(large, 1000, 16);
  EXPECT_EQ(source.large().reserved(), 0u);
}

TEST(BinnedResource, SynchronizesEachOfItsResources) {
  struct late_resource : host_resource {
    int* waits;
    explicit late_resource(int* counter) : waits{counter} {}
    void synchronize() { ++*waits; }
  };
  int small = 0, large = 0;
  binned_resource<late_resource, late_resource> source{[&] { return late_resource{&small}; },
                                                       late_resource{&large}, 16, 32};
  synchronize(source);
  EXPECT_EQ(small, 2);
  EXPECT_EQ(large, 1);
}

TEST(BinnedResource, RefusesSlotsInAnotherLocation) {
  struct device_like : simulated_resource {
    static memory_location location() { return {memory_kind::device, 1}; }
  };
  struct other_device : simulated_resource {
    static memory_location location() { return {memory_kind::device, 0}; }
  };
  EXPECT_THROW((binned_resource<device_like, host_resource>{[] { return device_like{}; },
                                                            host_resource{}, 16, 64}),
               bad_argument);
  EXPECT_THROW((binned_resource<device_like, other_device>{[] { return device_like{}; },
                                                           other_device{}, 16, 64}),
               bad_argument);
  binned_resource<device_like, device_like> matching{[] { return device_like{}; }, device_like{},
                                                     16, 64};
  EXPECT_EQ(matching.location(), device_like::location());
}

TEST(BinnedResource, RefusesInvalidBinSizes) {
  for (auto const& [minimum, maximum] :
       {std::pair<bytes, bytes>{8, 64}, {24, 64}, {64, 100}, {64, 32}}) {
    EXPECT_THROW((bins{[] { return host_resource{}; }, host_resource{}, minimum, maximum}),
                 bad_argument)
        << minimum << ' ' << maximum;
  }
}

}  // namespace binned_resource_test
}  // namespace quarry::test
