// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/aligned_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace quarry::test {
namespace aligned_resource_test {

aligned_resource<host_resource> make() { return {host_resource{}, 16}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("AlignedResource", all{});

TEST(AlignedResource, AlignsToMoreThanItsUpstreamAndReturnsAllMemory) {
  aligned_resource<simulated_resource> source{simulated_resource{}, 16};
  for (bytes const alignment : {bytes{16}, bytes{64}, bytes{4096}, bytes{1} << 20}) {
    void* const first = source.allocate(100, alignment);
    void* const second = source.allocate(0, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % alignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % alignment, 0u);
    source.deallocate(first, 100, alignment);
    source.deallocate(second, 0, alignment);
  }
  EXPECT_EQ(source.upstream().reserved(), 0u);
  EXPECT_EQ(source.upstream().allocations(), source.upstream().deallocations());
}

TEST(AlignedResource, LosesNothingWhenItsUpstreamFails) {
  aligned_resource<simulated_resource> source{simulated_resource{1000}, 16};
  EXPECT_THROW((void)source.allocate(900, 512), out_of_memory);
  EXPECT_THROW((void)source.allocate(~bytes{0} - 5, 512), out_of_memory);
  void* const memory = source.allocate(400, 512);
  source.deallocate(memory, 400, 512);
  source.deallocate(memory, 400, 512);
  EXPECT_EQ(source.upstream().deallocations(), 1u)
      << "an unknown address does not reach the upstream";
}

TEST(AlignedResource, PassesStreamsOn) {
  aligned_resource<recording_source> source{recording_source{}, 16};
  expect_calls_pass(source, *source.upstream().calls);
  source.upstream().calls->clear();
  void* const first = source.allocate(100, 64, cuda_stream{});
  void* const second = source.allocate_sync(200, 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 64, 0u);
  source.deallocate(first, 100, 64, cuda_stream{});
  source.deallocate_sync(second, 200, 64);
  EXPECT_EQ(*source.upstream().calls,
            (std::vector<std::string>{"allocate 164 on 0", "allocate_sync 264",
                                      "deallocate 164 on 0", "deallocate_sync 264"}));
}

TEST(AlignedResource, ServesSeveralThreadsAtOnce) {
  aligned_resource<host_resource> source{host_resource{}, 16};
  auto const work = [&](unsigned seed) {
    struct kept_memory {
      char* pointer;
      bytes size, alignment;
    };
    std::vector<kept_memory> kept;
    auto const free_last = [&] {
      auto const [pointer, size, alignment] = kept.back();
      kept.pop_back();
      for (bytes i = 0; i != size; ++i) ASSERT_EQ(pointer[i], static_cast<char>(size));
      source.deallocate(pointer, size, alignment);
    };
    for (int i = 0; i != 3000; ++i) {
      seed = seed * 1664525u + 1013904223u;
      if (seed >> 31 != 0 && !kept.empty()) {
        free_last();
        continue;
      }
      bytes const size = (seed >> 8) % 200, alignment = bytes{16} << (seed >> 20) % 8;
      auto* const pointer = static_cast<char*>(source.allocate(size, alignment));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % alignment, 0u);
      std::fill_n(pointer, size, static_cast<char>(size));
      kept.push_back({pointer, size, alignment});
    }
    while (!kept.empty()) free_last();
  };
  std::thread other{work, 1};
  work(2);
  other.join();
}

}  // namespace aligned_resource_test
}  // namespace quarry::test
