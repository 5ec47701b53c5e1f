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

/// Notes which streams were waited for; while `is_capturing` none can be.
struct noted_streams : immediate_streams {
  struct labels {
    std::vector<cuda_stream> waited;
    int waited_for_all = 0;
    bool is_capturing = false;
    bool all_fail = false;  // though each stream by itself can be waited for
  };
  [[nodiscard]] bool finish(cuda_stream one) noexcept {
    if (seen->is_capturing) return false;
    seen->waited.push_back(one);
    return true;
  }
  void finish(event const&) noexcept {}
  [[nodiscard]] bool finish_all() noexcept {
    ++seen->waited_for_all;
    return !seen->is_capturing && !seen->all_fail;
  }
  std::shared_ptr<labels> seen = std::make_shared<labels>();
};
static_assert(stream_order<noted_streams>);

using source = waiting_source<simulated_resource, noted_streams>;
bytes reserved(source& from) {
  return from.with([](simulated_resource& resource) { return resource.reserved(); });
}
cuda_stream stream_number(std::uintptr_t number) { return reinterpret_cast<cuda_stream>(number); }

TEST(WaitingSource, WaitsForTheStreamThatGivesBack) {
  noted_streams const streams;
  source from{streams};
  void* const one = from.allocate(100, 16, stream_number(16));
  void* const other = from.allocate(200, 16, stream_number(32));
  EXPECT_TRUE(streams.seen->waited.empty());
  from.deallocate(other, 200, 16, stream_number(16));
  from.deallocate(one, 100, 16, stream_number(32));
  EXPECT_EQ(streams.seen->waited, (std::vector<cuda_stream>{stream_number(16), stream_number(32)}));
  from.deallocate_sync(from.allocate_sync(300, 16), 300, 16);
  EXPECT_EQ(streams.seen->waited.size(), 2u);
  EXPECT_EQ(reserved(from), 0u);
}

TEST(WaitingSource, KeepsWhatCannotBeWaitedForUntilItCan) {
  noted_streams const streams;
  source from{streams};
  void* const one = from.allocate(100, 16, stream_number(16));
  void* const other = from.allocate(200, 16, stream_number(16));
  void* const third = from.allocate(400, 16, stream_number(16));
  streams.seen->is_capturing = true;
  from.deallocate(one, 100, 16, stream_number(16));
  from.deallocate(other, 200, 16, stream_number(32));
  EXPECT_EQ(from.kept(), 2u);
  EXPECT_EQ(reserved(from), 700u);
  streams.seen->is_capturing = false;
  from.deallocate(third, 400, 16, stream_number(16));
  EXPECT_EQ(streams.seen->waited_for_all, 1);
  EXPECT_EQ(from.kept(), 0u);
  EXPECT_EQ(reserved(from), 0u);
}

TEST(WaitingSource, GivesBackWhatItKeptWhenItIsDestroyed) {
  struct shared_counts {
    void* allocate(bytes size, bytes) {
      *allocated += 1;
      return reinterpret_cast<void*>(size);
    }
    void deallocate(void*, bytes, bytes) noexcept { *allocated -= 1; }
    std::shared_ptr<int> allocated;
  };
  auto const allocated = std::make_shared<int>(0);
  noted_streams const streams;
  {
    waiting_source<shared_counts, noted_streams> from{streams, shared_counts{allocated}};
    streams.seen->is_capturing = true;
    from.deallocate(from.allocate(100, 16, nullptr), 100, 16, nullptr);
    EXPECT_EQ(*allocated, 1);
    streams.seen->is_capturing = false;
  }
  EXPECT_EQ(streams.seen->waited_for_all, 1);
  EXPECT_EQ(*allocated, 0);
}

TEST(WaitingSource, RefusesWhatItDoesNotHaveAndGoesOn) {
  noted_streams const streams;
  source from{streams, simulated_resource{1000}};
  for (int i = 0; i < 2; ++i) {
    from.deallocate(nullptr, 100, 16, stream_number(16));
    from.deallocate_sync(nullptr, 100, 16);
  }
  EXPECT_EQ(from.invalid_frees(), 0u);
  void* const one = from.allocate(100, 16, stream_number(16));
  void* const other = from.allocate(200, 16, stream_number(16));
  int foreign[2];
  from.deallocate(&foreign[0], 100, 16, stream_number(16));
  from.deallocate_sync(&foreign[1], 100, 16);
  from.deallocate(one, 100, 16, stream_number(16));
  from.deallocate(one, 100, 16, stream_number(32));
  from.deallocate_sync(one, 100, 16);
  EXPECT_EQ(from.invalid_frees(), 4u);
  EXPECT_EQ(reserved(from), 200u);
  from.deallocate(other, 200, 16, stream_number(16));
  EXPECT_EQ(reserved(from), 0u);
  from.deallocate_sync(from.allocate_sync(1000, 16), 1000, 16);
}

TEST(WaitingSource, RefusesWhatItKeeps) {
  noted_streams const streams;
  source from{streams};
  void* const one = from.allocate(100, 16, stream_number(16));
  void* const other = from.allocate(200, 16, stream_number(16));
  streams.seen->is_capturing = true;
  from.deallocate(one, 100, 16, stream_number(16));
  from.deallocate(one, 100, 16, stream_number(16));
  from.deallocate_sync(one, 100, 16);
  EXPECT_EQ(from.kept(), 1u);
  EXPECT_EQ(from.invalid_frees(), 2u);
  streams.seen->is_capturing = false;
  from.deallocate(other, 200, 16, stream_number(16));
  EXPECT_EQ(from.kept(), 0u);
  EXPECT_EQ(reserved(from), 0u);
}

/// A wait for all streams is dear, and may fail for long.
TEST(WaitingSource, TriesLessOftenTheMoreAttemptsFailed) {
  noted_streams const streams;
  source from{streams};
  void* const kept = from.allocate(100, 16, stream_number(16));
  streams.seen->is_capturing = true;
  from.deallocate(kept, 100, 16, stream_number(16));
  streams.seen->is_capturing = false;
  streams.seen->all_fail = true;
  for (int i = 0; i < 2000; ++i) from.deallocate(from.allocate(200, 16, nullptr), 200, 16, nullptr);
  EXPECT_EQ(streams.seen->waited_for_all, 10);  // after 1, 3, 7, ... 1023
  streams.seen->all_fail = false;
  for (int i = 0; i < 2000 && from.kept() != 0; ++i)
    from.deallocate(from.allocate(200, 16, nullptr), 200, 16, nullptr);
  EXPECT_EQ(from.kept(), 0u);
  EXPECT_EQ(reserved(from), 0u);
}

TEST(WaitingSource, GivesBackWhatItKeptWhenThereIsNoMemory) {
  noted_streams const streams;
  source from{streams, simulated_resource{1000}};
  void* const one = from.allocate(600, 16, stream_number(16));
  void* const other = from.allocate(400, 16, stream_number(16));
  streams.seen->is_capturing = true;
  from.deallocate(one, 600, 16, stream_number(16));
  from.deallocate(other, 400, 16, stream_number(16));
  EXPECT_THROW((void)from.allocate(500, 16, stream_number(16)), out_of_memory);
  streams.seen->is_capturing = false;
  void* const third = from.allocate(1000, 16, stream_number(16));
  EXPECT_EQ(from.kept(), 0u);
  EXPECT_THROW((void)from.allocate(1, 16, stream_number(16)), out_of_memory);
  EXPECT_EQ(streams.seen->waited_for_all, 2);
  from.deallocate(third, 1000, 16, stream_number(16));
}

/// Another thread allocates and deallocates while one waits for its stream.
TEST(WaitingSource, HoldsNoLockWhileItWaits) {
  struct slow_streams : noted_streams {
    [[nodiscard]] bool finish(cuda_stream one) noexcept {
      while (one == stream_number(16) && !*is_over) std::this_thread::yield();
      return true;
    }
    void finish(event const&) noexcept {}
    std::shared_ptr<std::atomic<bool>> is_over = std::make_shared<std::atomic<bool>>(false);
  };
  slow_streams const streams;
  waiting_source<simulated_resource, slow_streams> from{streams};
  void* const one = from.allocate(100, 16, stream_number(16));
  std::thread waits{[&] { from.deallocate(one, 100, 16, stream_number(16)); }};
  std::thread works{[&] {
    for (int i = 0; i < 100; ++i)
      from.deallocate(from.allocate(200, 16, nullptr), 200, 16, nullptr);
    *streams.is_over = true;
  }};
  works.join();
  waits.join();
  EXPECT_EQ(from.with([](simulated_resource& resource) { return resource.reserved(); }), 0u);
}

TEST(WaitingSource, PassesOnThatThereIsNoMemory) {
  source from{noted_streams{}, simulated_resource{1000}};
  EXPECT_THROW((void)from.allocate(2000, 16, nullptr), out_of_memory);
  EXPECT_THROW((void)from.allocate_sync(100, 3), bad_argument);
  from.deallocate(from.allocate(1000, 16, nullptr), 1000, 16, nullptr);
  EXPECT_EQ(reserved(from), 0u);
}

/// A stitched pool, which knows no streams, shared by two threads with a stream each.
TEST(WaitingSource, LetsThreadsShareAPool) {
  waiting_source<stitched_pool<host_pages>, immediate_streams> from{immediate_streams{},
                                                                    host_pages{64_KiB}};
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 1; number <= 2; ++number) {
    threads.emplace_back([&from, stream = stream_number(number)] {
      for (bytes i = 0; i < 500; ++i)
        from.deallocate(from.allocate(1 + i * 50, 16, stream), 1 + i * 50, 16, stream);
    });
  }
  for (auto& each : threads) each.join();
  from.with([](auto& pool) {
    EXPECT_EQ(pool.counts().allocated, 0u);
    EXPECT_TRUE(pool.audit().empty());
  });
}

}  // namespace waiting_source_test
}  // namespace quarry::test
