// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/synchronized_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"

#include <thread>

namespace quarry::test {
namespace synchronized_resource_test {

synchronized_resource<host_resource> make() { return synchronized_resource<host_resource>{}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("SynchronizedResource", all{});

TEST(SynchronizedResource, LetsThreadsShareAPool) {
  synchronized_resource<pool<host_resource>> source{host_resource{},
                                                    pool_options{.first_block = 1_MiB}};
  std::vector<std::thread> threads;
  for (unsigned char number = 1; number <= 4; ++number) {
    threads.emplace_back([&source, number] {
      std::mt19937 random{number};
      std::vector<std::pair<unsigned char*, bytes>> pointers;
      for (int step = 0; step < 3000; ++step) {
        if (random() % 2 == 0 && !pointers.empty()) {
          auto const [memory, size] = pointers.back();
          pointers.pop_back();
          for (bytes i = 0; i < size; ++i) ASSERT_EQ(memory[i], number);
          source.deallocate(memory, size, 16);
          continue;
        }
        bytes const size = random() % 200;
        auto* const memory = static_cast<unsigned char*>(source.allocate(size, 16));
        std::memset(memory, number, size);
        pointers.emplace_back(memory, size);
      }
      for (auto const& [memory, size] : pointers) source.deallocate(memory, size, 16);
    });
  }
  for (auto& each : threads) each.join();
  source.with([](pool<host_resource>& inner) {
    EXPECT_EQ(inner.counts().allocated, 0u);
    EXPECT_TRUE(inner.audit().empty());
  });
}

TEST(SynchronizedResource, ReturnsUnusedMemoryThroughAdaptors) {
  using cache = size_cache_resource<host_resource>;
  statistics_resource<synchronized_resource<cache>> source{
      synchronized_resource<cache>{host_resource{}, 4u}};
  source.deallocate(source.allocate(100, 16), 100, 16);
  EXPECT_EQ(reserved_by(source), 100u);
  release_unused(source);
  EXPECT_EQ(reserved_by(source), 0u);
}

TEST(SynchronizedResource, CountsNothingOverAnUpstreamThatDoesNotCount) {
  synchronized_resource<host_resource> source;
  release_unused(source);
  EXPECT_EQ(reserved_by(source), std::nullopt);
}

}  // namespace synchronized_resource_test
}  // namespace quarry::test
