// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/waiting_source.hpp"

#include "host/pools/immediate_streams.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/platform/host_pages.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace quarry::test {
namespace waiting_source_test {

using namespace quarry::literals;

/// Records the streams that the source waited for. While `is_capturing`, every wait fails.
struct recording_streams : immediate_streams {
  struct records {
    std::vector<cuda_stream> waited;
    int waited_for_all = 0;
    bool is_capturing = false;
    bool all_fail = false;  // although a wait for a single stream works
  };
  [[nodiscard]] bool finish(cuda_stream handle) noexcept {
    if (seen->is_capturing) return false;
    seen->waited.push_back(handle);
    return true;
  }
  void finish(event const&) noexcept {}
  [[nodiscard]] bool finish_all() noexcept {
    ++seen->waited_for_all;
    return !seen->is_capturing && !seen->all_fail;
  }
  std::shared_ptr<records> seen = std::make_shared<records>();
};
static_assert(stream_order<recording_streams>);

using simulated_source = waiting_source<simulated_resource, recording_streams>;
bytes reserved(simulated_source& source) {
  return source.with([](simulated_resource& resource) { return resource.reserved(); });
}

TEST(WaitingSource, WaitsForTheStreamOfAFree) {
  recording_streams const streams;
  simulated_source source{streams};
  void* const first = source.allocate(100, 16, stream_number(16));
  void* const second = source.allocate(200, 16, stream_number(32));
  EXPECT_TRUE(streams.seen->waited.empty());
  source.deallocate(second, 200, 16, stream_number(16));
  source.deallocate(first, 100, 16, stream_number(32));
  EXPECT_EQ(streams.seen->waited, (std::vector<cuda_stream>{stream_number(16), stream_number(32)}));
  source.deallocate_sync(source.allocate_sync(300, 16), 300, 16);
  EXPECT_EQ(streams.seen->waited.size(), 2u);
  EXPECT_EQ(reserved(source), 0u);
}

TEST(WaitingSource, KeepsFreedMemoryUntilAWaitSucceeds) {
  recording_streams const streams;
  simulated_source source{streams};
  void* const first = source.allocate(100, 16, stream_number(16));
  void* const second = source.allocate(200, 16, stream_number(16));
  void* const third = source.allocate(400, 16, stream_number(16));
  streams.seen->is_capturing = true;
  source.deallocate(first, 100, 16, stream_number(16));
  source.deallocate(second, 200, 16, stream_number(32));
  EXPECT_EQ(source.kept(), 2u);
  EXPECT_EQ(reserved(source), 700u);
  streams.seen->is_capturing = false;
  source.deallocate(third, 400, 16, stream_number(16));
  EXPECT_EQ(streams.seen->waited_for_all, 1);
  EXPECT_EQ(source.kept(), 0u);
  EXPECT_EQ(reserved(source), 0u);
}

TEST(WaitingSource, ReturnsKeptMemoryWhenItIsDestroyed) {
  struct shared_counts {
    void* allocate(bytes size, bytes) {
      *allocated += 1;
      return reinterpret_cast<void*>(size);
    }
    void deallocate(void*, bytes, bytes) noexcept { *allocated -= 1; }
    std::shared_ptr<int> allocated;
  };
  auto const allocated = std::make_shared<int>(0);
  recording_streams const streams;
  {
    waiting_source<shared_counts, recording_streams> source{streams, shared_counts{allocated}};
    streams.seen->is_capturing = true;
    source.deallocate(source.allocate(100, 16, nullptr), 100, 16, nullptr);
    EXPECT_EQ(*allocated, 1);
    streams.seen->is_capturing = false;
  }
  EXPECT_EQ(streams.seen->waited_for_all, 1);
  EXPECT_EQ(*allocated, 0);
}

TEST(WaitingSource, RefusesInvalidFreesAndContinues) {
  recording_streams const streams;
  simulated_source source{streams, simulated_resource{1000}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(source.deallocate(nullptr, 100, 16, stream_number(16)));
    EXPECT_TRUE(source.deallocate_sync(nullptr, 100, 16));
  }
  EXPECT_EQ(source.invalid_frees(), 0u);
  void* const first = source.allocate(100, 16, stream_number(16));
  void* const second = source.allocate(200, 16, stream_number(16));
  int foreign[2];
  EXPECT_FALSE(source.deallocate(&foreign[0], 100, 16, stream_number(16)));
  EXPECT_FALSE(source.deallocate_sync(&foreign[1], 100, 16));
  EXPECT_TRUE(source.deallocate(first, 100, 16, stream_number(16)));
  EXPECT_FALSE(source.deallocate(first, 100, 16, stream_number(32)));
  EXPECT_FALSE(source.deallocate_sync(first, 100, 16));
  EXPECT_EQ(source.invalid_frees(), 4u);
  EXPECT_EQ(reserved(source), 200u);
  source.deallocate(second, 200, 16, stream_number(16));
  EXPECT_EQ(reserved(source), 0u);
  source.deallocate_sync(source.allocate_sync(1000, 16), 1000, 16);
}

TEST(WaitingSource, RefusesADoubleFreeOfKeptMemory) {
  recording_streams const streams;
  simulated_source source{streams};
  void* const first = source.allocate(100, 16, stream_number(16));
  void* const second = source.allocate(200, 16, stream_number(16));
  streams.seen->is_capturing = true;
  EXPECT_TRUE(source.deallocate(first, 100, 16, stream_number(16)));
  EXPECT_FALSE(source.deallocate(first, 100, 16, stream_number(16)));
  EXPECT_FALSE(source.deallocate_sync(first, 100, 16));
  EXPECT_EQ(source.kept(), 1u);
  EXPECT_EQ(source.invalid_frees(), 2u);
  streams.seen->is_capturing = false;
  source.deallocate(second, 200, 16, stream_number(16));
  EXPECT_EQ(source.kept(), 0u);
  EXPECT_EQ(reserved(source), 0u);
}

/// A wait for all streams is expensive, and may fail for a long time.
TEST(WaitingSource, RetriesLessOftenAfterEachFailedWait) {
  recording_streams const streams;
  simulated_source source{streams};
  void* const kept = source.allocate(100, 16, stream_number(16));
  streams.seen->is_capturing = true;
  source.deallocate(kept, 100, 16, stream_number(16));
  streams.seen->is_capturing = false;
  streams.seen->all_fail = true;
  for (int i = 0; i < 2000; ++i)
    source.deallocate(source.allocate(200, 16, nullptr), 200, 16, nullptr);
  EXPECT_EQ(streams.seen->waited_for_all, 10);  // after 1, 3, 7, ... 1023 frees
  streams.seen->all_fail = false;
  for (int i = 0; i < 2000 && source.kept() != 0; ++i)
    source.deallocate(source.allocate(200, 16, nullptr), 200, 16, nullptr);
  EXPECT_EQ(source.kept(), 0u);
  EXPECT_EQ(reserved(source), 0u);
}

TEST(WaitingSource, ReturnsKeptMemoryWhenAnAllocationFails) {
  recording_streams const streams;
  simulated_source source{streams, simulated_resource{1000}};
  void* const first = source.allocate(600, 16, stream_number(16));
  void* const second = source.allocate(400, 16, stream_number(16));
  streams.seen->is_capturing = true;
  source.deallocate(first, 600, 16, stream_number(16));
  source.deallocate(second, 400, 16, stream_number(16));
  EXPECT_THROW((void)source.allocate(500, 16, stream_number(16)), out_of_memory);
  streams.seen->is_capturing = false;
  void* const third = source.allocate(1000, 16, stream_number(16));
  EXPECT_EQ(source.kept(), 0u);
  EXPECT_THROW((void)source.allocate(1, 16, stream_number(16)), out_of_memory);
  EXPECT_EQ(streams.seen->waited_for_all, 2);
  source.deallocate(third, 1000, 16, stream_number(16));
}

/// Another thread allocates and deallocates while one thread waits for its stream.
TEST(WaitingSource, HoldsNoLockWhileItWaits) {
  struct slow_streams : recording_streams {
    [[nodiscard]] bool finish(cuda_stream handle) noexcept {
      while (handle == stream_number(16) && !*is_over) std::this_thread::yield();
      return true;
    }
    void finish(event const&) noexcept {}
    std::shared_ptr<std::atomic<bool>> is_over = std::make_shared<std::atomic<bool>>(false);
  };
  slow_streams const streams;
  waiting_source<simulated_resource, slow_streams> source{streams};
  void* const memory = source.allocate(100, 16, stream_number(16));
  std::thread waiting_thread{[&] { source.deallocate(memory, 100, 16, stream_number(16)); }};
  std::thread working_thread{[&] {
    for (int i = 0; i < 100; ++i)
      source.deallocate(source.allocate(200, 16, nullptr), 200, 16, nullptr);
    *streams.is_over = true;
  }};
  working_thread.join();
  waiting_thread.join();
  EXPECT_EQ(source.with([](simulated_resource& resource) { return resource.reserved(); }), 0u);
}

TEST(WaitingSource, PassesOnOutOfMemory) {
  simulated_source source{recording_streams{}, simulated_resource{1000}};
  EXPECT_THROW((void)source.allocate(2000, 16, nullptr), out_of_memory);
  EXPECT_THROW((void)source.allocate_sync(100, 3), bad_argument);
  source.deallocate(source.allocate(1000, 16, nullptr), 1000, 16, nullptr);
  EXPECT_EQ(reserved(source), 0u);
}

/// Two threads, each with its own stream, share a stitched pool, which does not know streams.
TEST(WaitingSource, LetsThreadsShareAPool) {
  waiting_source<stitched_pool<host_pages>, immediate_streams> source{immediate_streams{},
                                                                      host_pages{64_KiB}};
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 1; number <= 2; ++number) {
    threads.emplace_back([&source, stream = stream_number(number)] {
      for (bytes i = 0; i < 500; ++i)
        source.deallocate(source.allocate(1 + i * 50, 16, stream), 1 + i * 50, 16, stream);
    });
  }
  for (auto& each : threads) each.join();
  source.with([](auto& pool) {
    EXPECT_EQ(pool.counts().allocated, 0u);
    EXPECT_TRUE(pool.audit().empty());
  });
}

}  // namespace waiting_source_test
}  // namespace quarry::test
