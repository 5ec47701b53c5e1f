// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/locked_stream_pool.hpp"

#include "host/pools/immediate_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace quarry::test {
namespace locked_stream_pool_test {

using host_source = locked_stream_pool<limited_resource<host_resource>, immediate_streams>;
static_assert(takes_stream_calls<host_source, cuda_stream>);
static_assert(takes_sync_calls<host_source>);

/// True if a source gives access to its pool without the lock.
template <class Source>
concept shows_its_pool = requires(Source& source) { source.pool; };
static_assert(!shows_its_pool<host_source>);

stream_pool_options const small_blocks{.first_block = 1 << 16, .next_block = 1 << 16};

TEST(LockedStreamPool, AllocatesInTheOrderOfAStreamAndForAllStreams) {
  host_source source{limited_resource{host_resource{}, bytes{1} << 20}, immediate_streams{},
                     small_blocks};
  void* const first = source.allocate(1000, 256, stream_number(16));
  void* const second = source.allocate_sync(2000, 512);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 512, 0u);
  EXPECT_EQ(source.counts().allocated, 3000u);
  source.deallocate(first, 1000, 256, stream_number(16));
  source.deallocate_sync(second, 2000, 512);
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
  EXPECT_EQ(source.location(), memory_location{});
}

TEST(LockedStreamPool, RefusesInvalidFreesAndImpossibleRequests) {
  host_source source{limited_resource{host_resource{}, bytes{1} << 20}, immediate_streams{},
                     small_blocks};
  void* const memory = source.allocate(1000, 256, stream_number(16));
  int foreign = 0;
  source.deallocate(&foreign, 4, 256, stream_number(16));
  source.deallocate(memory, 1000, 256, stream_number(16));
  source.deallocate(memory, 1000, 256, stream_number(32));
  EXPECT_EQ(source.counts().invalid_frees, 2u);
  EXPECT_THROW((void)source.allocate(bytes{1} << 30, 256, stream_number(16)), out_of_memory);
  EXPECT_THROW((void)source.allocate_sync(100, 3), bad_argument);
  EXPECT_TRUE(source.audit().empty());
}

TEST(LockedStreamPool, IsUsedByOneThreadAtATime) {
  host_source source{limited_resource{host_resource{}, bytes{1} << 24}, immediate_streams{},
                     small_blocks};
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 1; number <= 2; ++number) {
    threads.emplace_back([&source, stream = stream_number(16 * number)] {
      for (bytes size = 1; size <= 500; ++size) {
        void* const memory = source.allocate(size, 16, stream);
        source.with([&](auto& pool) { EXPECT_EQ(pool.size_of(memory), size); });
        EXPECT_GE(source.counts().allocations_in_use, 1u);
        EXPECT_TRUE(source.audit().empty());
        source.deallocate(memory, size, 16, stream);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(source.with([](auto& pool) { return pool.counts().allocations; }), 1000u);
}

/// Other threads allocate while one thread waits for the default stream.
TEST(LockedStreamPool, HoldsNoLockWhileItWaits) {
  struct slow_streams : immediate_streams {
    [[nodiscard]] bool finish(cuda_stream) noexcept {
      is_waiting->store(true);
      while (!is_over->load()) std::this_thread::yield();
      return true;
    }
    void finish(event const&) noexcept {}
    std::shared_ptr<std::atomic<bool>> is_waiting = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> is_over = std::make_shared<std::atomic<bool>>(false);
  };
  slow_streams const streams;
  locked_stream_pool<host_resource, slow_streams> source{host_resource{}, streams, small_blocks};
  std::thread waiting_thread{
      [&] { source.deallocate_sync(source.allocate_sync(100, 16), 100, 16); }};
  while (!streams.is_waiting->load()) std::this_thread::yield();
  void* const first = source.allocate(200, 16, stream_number(16));
  void* const second = source.allocate(200, 16, stream_number(32));
  source.deallocate(second, 200, 16, stream_number(32));
  source.deallocate(first, 200, 16, stream_number(16));
  streams.is_over->store(true);
  waiting_thread.join();
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
}

TEST(LockedStreamPool, FailsIfItCannotWaitForTheStream) {
  struct no_wait : immediate_streams {
    [[nodiscard]] bool finish(cuda_stream) noexcept { return false; }
    void finish(event const&) noexcept {}
  };
  locked_stream_pool<host_resource, no_wait> source{host_resource{}, no_wait{}, small_blocks};
  for (bytes const size : {100, 200})
    EXPECT_THROW((void)source.allocate_sync(size, 16), resource_failed);
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
}

}  // namespace locked_stream_pool_test
}  // namespace quarry::test
