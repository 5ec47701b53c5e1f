// SPDX-License-Identifier: Apache-2.0
// Threads that use allocators in C++ and in C, where the other tests of these functions have one
// thread: they do not compile under ThreadSanitizer.
#include "host/scoped_allocator.hpp"
#include "quarry/host/any_allocator.hpp"
#include "quarry/host/c_api.h"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace quarry::test {
namespace allocators_of_threads_test {

TEST(AnyAllocator, CallsOfThreadsAreSerialised) {
  scoped_allocator const first{allocators::make_pool("shared", host_resource{})};
  scoped_allocator const second{allocators::make<host_resource>("shared resource")};
  std::vector<std::thread> all;
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back([&, thread] {
      any_allocator source = thread % 2 == 0 ? first.handle : second.handle;
      for (int i = 0; i < 2000; ++i) {
        auto* const a = static_cast<unsigned char*>(source.allocate(64));
        *a = static_cast<unsigned char>(thread);
        EXPECT_EQ(source.size_of(a), 64u);
        EXPECT_TRUE(source.deallocate(a));
      }
    });
  }
  for (auto& each : all) each.join();
  EXPECT_EQ(first.handle.counts().allocations_in_use, 0u);
  EXPECT_EQ(second.handle.counts().allocations_in_use, 0u);
}

TEST(CApiOfThreads, LetsThreadsShareAPoolAndKeepsTheirErrorsApart) {
  quarry_pool* pool = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([pool, number] {
      std::mt19937 random{number};
      std::map<void*, unsigned char> allocated;
      for (int step = 0; step < 2000; ++step) {
        if (random() % 2 == 0 && !allocated.empty()) {
          auto const [memory, fill] = *allocated.begin();
          ASSERT_EQ(*static_cast<unsigned char*>(memory), fill);
          ASSERT_EQ(quarry_pool_deallocate(pool, memory), QUARRY_OK);
          allocated.erase(allocated.begin());
          continue;
        }
        void* memory = nullptr;
        ASSERT_EQ(quarry_pool_allocate(pool, random() % 300 + 1, &memory), QUARRY_OK);
        allocated[memory] = *static_cast<unsigned char*>(memory) =
            static_cast<unsigned char>(random());
      }
      for (auto const& [memory, fill] : allocated) quarry_pool_deallocate(pool, memory);
      std::uint64_t const unique_size = (std::uint64_t{1} << 50) + number;
      void* memory = nullptr;
      quarry_pool_allocate(pool, unique_size, &memory);
      EXPECT_NE(std::string{quarry_last_error()}.find(std::to_string(unique_size)),
                std::string::npos);
    });
  }
  for (auto& each : threads) each.join();
  quarry_pool_counts counts;
  quarry_pool_get_counts(pool, &counts);
  EXPECT_EQ(counts.allocated, 0u);
  quarry_pool_destroy(pool);
}

TEST(CAllocatorsOfThreads, ServeThreads) {
  quarry_allocator *host = nullptr, *fields = nullptr;
  ASSERT_EQ(quarry_allocator_make("HOST", "host", &host), QUARRY_OK);
  ASSERT_EQ(quarry_allocator_make("fields", "pool('HOST', first_block=64KiB)", &fields), QUARRY_OK);
  std::vector<std::thread> all;
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        quarry_allocator* source = nullptr;
        void* a = nullptr;
        EXPECT_EQ(quarry_allocator_find(i % 2 == 0 ? "fields" : "HOST", &source), QUARRY_OK);
        EXPECT_EQ(quarry_allocator_allocate(source, 64, &a), QUARRY_OK);
        EXPECT_EQ(quarry_deallocate(a), QUARRY_OK);
      }
    });
  }
  for (auto& each : all) each.join();
  EXPECT_EQ(quarry_allocator_destroy("fields", 0), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_destroy("HOST", 0), QUARRY_OK);
}

}  // namespace allocators_of_threads_test
}  // namespace quarry::test
