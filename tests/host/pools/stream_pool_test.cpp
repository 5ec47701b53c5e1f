// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stream_pool.hpp"

#include "conformance/resources.hpp"
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

namespace quarry::test {
namespace stream_pool_test {

using simulated_pool = stream_pool<simulated_resource, simulated_streams>;

/// Calls `on_return(base, size)` for each block that returns.
struct watched_resource {
  static constexpr bool is_simulated = true;
  std::function<void(std::uint64_t, bytes)> on_return;
  simulated_resource upstream;

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return upstream.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    on_return(reinterpret_cast<std::uint64_t>(pointer), size);
    upstream.deallocate(pointer, size, alignment);
  }
};

struct StreamPool : testing::Test {
  simulated_pool& make(stream_pool_options options = {.first_block = 1_MiB, .next_block = 1_MiB},
                       bytes limit = ~bytes{0}) {
    pool =
        std::make_unique<simulated_pool>(simulated_resource{limit}, simulated_streams{}, options);
    return *pool;
  }
  simulated_world& world() { return pool->order().world(); }
  std::unique_ptr<simulated_pool> pool;
};

TEST_F(StreamPool, ReusesAStreamsMemoryForItWithoutAnEvent) {
  auto& source = make();
  void* const first = source.allocate(1000, 1);
  for (int i = 0; i < 640; ++i) {
    EXPECT_TRUE(source.deallocate(first, 1));
    EXPECT_EQ(source.allocate(1000, 1), first);
  }
  EXPECT_LE(source.counts().events,
            640 * 1024 / (1_MiB / 16));  // one event for each sixteenth of the pool
  EXPECT_EQ(source.counts().blocks_allocated, 1u);
}

TEST_F(StreamPool, TellsTheGrantedSizesOfAllocations) {
  auto& source = make();
  bytes granted = 0;
  std::vector<void*> all;
  for (bytes size = 1; size < 10'000; size = size * 3 + 1) {
    all.push_back(source.allocate(size, 1));
    auto const found = source.sizes_of(all.back());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->requested, size);
    EXPECT_GE(found->granted, size);
    granted += found->granted;
    EXPECT_EQ(source.counts().granted, granted);
  }
  for (void* const pointer : all) source.deallocate(pointer, 1);
  EXPECT_EQ(source.counts().granted, 0u);
  EXPECT_FALSE(source.sizes_of(all.front()));
}

TEST_F(StreamPool, MakesAnotherStreamWaitBeforeItGetsTheMemory) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const all_memory = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  source.deallocate(all_memory, 1);
  EXPECT_EQ(source.allocate(1_MiB, 2), all_memory);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_EQ(source.counts().events, 1u);
  EXPECT_EQ(source.counts().waits, 1u);
}

TEST_F(StreamPool, MakesAStreamWaitOnceForAllFreesOfAnotherStream) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  std::vector<void*> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(source.allocate(64_KiB, 1));
  for (void* const part : parts) source.deallocate(part, 1);
  for (int i = 0; i < 16; ++i) (void)source.allocate(64_KiB, 2);
  EXPECT_LE(source.counts().events, 8u);
  EXPECT_EQ(source.counts().waits, 1u);
}

TEST_F(StreamPool, MakesNoStreamWaitForFinishedWork) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  world().done_percent = 100;
  source.deallocate(source.allocate(1_MiB, 1), 1);
  (void)source.allocate(1_MiB, 2);
  EXPECT_EQ(source.counts().waits, 0u);
  EXPECT_EQ(world().live_events, 0u);
}

/// The new stream must not treat the old stream's memory as its own while the old stream's work
/// uses that memory.
TEST_F(StreamPool, DistinguishesANewStreamFromTheOldStreamWithItsHandle) {
  for (bytes const size : {bytes{256}, bytes{64_KiB}, bytes{1_MiB}}) {
    SCOPED_TRACE(std::to_string(size) + " bytes");
    auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
    std::vector<void*> all;
    for (bytes sum = 0; sum < 1_MiB; sum += size) all.push_back(source.allocate(size, 1));
    auto const used = world().tick(1);
    for (void* const each : all) source.deallocate(each, 1);
    world().destroy(1);
    world().create(1);
    for (bytes sum = 0; sum < 1_MiB; sum += size) (void)source.allocate(size, 1);
    EXPECT_TRUE(world().is_before(1, used, 1));
    EXPECT_EQ(world().misuses, 0u);
  }
}

TEST_F(StreamPool, NeverQueriesADestroyedStream) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 4_MiB});
  auto streams = source.order();
  for (std::uint32_t stream = 1; stream <= 3; ++stream) {
    void* const small = source.allocate(1000, stream);
    source.deallocate(source.allocate(600_KiB, stream), stream);
    source.deallocate(small, stream);
    world().destroy(stream);
  }
  (void)source.allocate(2_MiB, 4);  // the pool grows, or takes memory of the destroyed streams
  source.release();
  (void)source.allocate(100, 4);
  EXPECT_EQ(world().misuses, 0u);
  pool.reset();
  EXPECT_EQ(streams.world().misuses, 0u);
  EXPECT_EQ(streams.world().live_events, 0u);
}

/// The program frees memory on a handle that names a new stream by now, before that stream has
/// allocated.
TEST_F(StreamPool, DoesNotCoverANewStreamsFreeByTheOldStreamsEvent) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const early = source.allocate(32_KiB, 1);
  void* const remainder = source.allocate(992_KiB, 2);
  auto const used = world().tick(1);
  source.deallocate(early, 1);
  world().destroy(1);
  world().create(1);
  source.deallocate(remainder, 1);  // enough for an event of the new stream
  void* const all_memory = source.allocate(1_MiB, 3);
  EXPECT_TRUE(world().is_before(1, used, 3));
  EXPECT_NE(all_memory, nullptr);
}

TEST_F(StreamPool, DistinguishesTheStreamsOfAPerThreadHandle) {
  constexpr auto handle = simulated_streams::of_thread;
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB});
  world().identities[handle] = 11;  // the first thread's stream
  void* const first = source.allocate(1000, handle);
  void* const second = source.allocate(1000, handle);
  EXPECT_TRUE(source.deallocate(first, handle));
  world().identities[handle] = 12;  // the second thread's stream, which uses that memory
  auto const used = world().tick(handle);
  EXPECT_TRUE(source.deallocate(second, handle));
  world().identities[handle] = 11;
  EXPECT_EQ(source.allocate(1000, handle), first);
  void* const more = source.allocate(1000, handle);
  EXPECT_TRUE(more != second || world().is_before(12, used, handle));
}

TEST_F(StreamPool, ForgetsStreamsWithoutMemory) {
  auto& source = make();
  for (int i = 0; i < 300; ++i) {
    world().destroy(1);
    world().create(1);
    source.deallocate(source.allocate(1000, 1), 1);
  }
  EXPECT_LE(source.counts().streams, 256u);
  EXPECT_EQ(source.counts().reserved, 1_MiB);
  EXPECT_EQ(world().misuses, 0u);
}

TEST_F(StreamPool, ReservesAStreamsMemoryForItWhileAWaitForAllFails) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  for (int i = 0; i < 15; ++i) (void)source.allocate(64_KiB, 2);
  void* last = nullptr;
  for (int i = 0; i < 16; ++i) last = source.allocate(4_KiB, 1);
  source.deallocate(last, 1);
  world().is_capturing = true;
  EXPECT_THROW((void)source.allocate(4_KiB, 3), out_of_memory);
  EXPECT_EQ(source.allocate(4_KiB, 1), last);
  source.deallocate(last, 1);
  world().is_capturing = false;
  EXPECT_EQ(source.allocate(4_KiB, 3), last);
}

TEST_F(StreamPool, ForgetSharesAStreamsMemory) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const all_memory = source.allocate(1_MiB, 1);
  source.deallocate(all_memory, 1);
  source.forget(1);
  EXPECT_EQ(source.counts().streams, 0u);
  EXPECT_EQ(source.allocate(1_MiB, 1), all_memory);
  EXPECT_EQ(source.counts().waits, 1u);
  source.forget(77);
}

TEST_F(StreamPool, WaitsForForgottenStreamsBeforeItsDestructionEnds) {
  auto& source = make();
  auto streams = source.order();
  void* const memory = source.allocate(100, 1);
  auto const used = streams.world().tick(1);
  source.deallocate(memory, 1);
  source.forget(1);
  pool.reset();
  EXPECT_GE(streams.world().finished[1], used);
  EXPECT_EQ(streams.world().live_events, 0u);
}

TEST_F(StreamPool, WaitsForAStreamThatCannotBeRecorded) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  auto& sick = world().never_records;
  void* const all_memory = source.allocate(1_MiB, sick);
  auto const used = world().tick(sick);
  source.deallocate(all_memory, sick);
  EXPECT_EQ(source.allocate(1_MiB, 2), all_memory);
  EXPECT_GE(world().finished[sick], used);
  source.forget(sick);
}

TEST_F(StreamPool, RefusesAnInvalidStream) {
  auto& source = make();
  EXPECT_THROW((void)source.allocate(10, simulated_streams::not_a_stream), bad_argument);
  void* const memory = source.allocate(10, 1);
  EXPECT_TRUE(source.deallocate(memory, simulated_streams::not_a_stream));
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
}

TEST_F(StreamPool, HasAtMostOneEventPerStream) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  for (int i = 0; i < 100; ++i) source.deallocate(source.allocate(1_MiB, 1), 2);
  EXPECT_LE(world().live_events, 2u);
}

TEST_F(StreamPool, ShareCoversTheWorkBeforeTheCall) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const all_memory = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  source.deallocate(all_memory, 1);
  source.share(1);
  auto const later_time = world().tick(1);
  EXPECT_EQ(source.allocate(1_MiB, 2), all_memory);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_FALSE(world().is_before(1, later_time, 2));
}

TEST_F(StreamPool, RefusesADoubleFreeAndAForeignPointer) {
  auto& source = make();
  void* const memory = source.allocate(100, 1);
  EXPECT_TRUE(source.deallocate(memory, 2));
  EXPECT_FALSE(source.deallocate(memory, 2));
  EXPECT_FALSE(source.deallocate(reinterpret_cast<void*>(12345), 1));
  EXPECT_TRUE(source.deallocate(nullptr, 1));
  EXPECT_EQ(source.counts().invalid_frees, 2u);
  EXPECT_TRUE(source.audit().empty());
  EXPECT_THROW((void)make({.alignment = 24}), bad_argument);
}

TEST_F(StreamPool, KeepsMemoryForItsStreamWhileAWaitFails) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const memory = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  world().never_records = 1;
  world().is_capturing = true;
  EXPECT_TRUE(source.deallocate(memory, 1));
  source.share(1);
  EXPECT_THROW((void)source.allocate(1_MiB, 2), out_of_memory);
  EXPECT_EQ(source.allocate(1_MiB, 1), memory) << "its own stream needs no wait";
  EXPECT_TRUE(source.deallocate(memory, 1));
  world().is_capturing = false;
  EXPECT_EQ(source.allocate(1_MiB, 2), memory);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, WithholdsMemoryOfAnUnknownStreamWhileAWaitFails) {
  constexpr auto stranger = simulated_streams::not_a_stream;
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const memory = source.allocate(1_MiB, 1);
  auto const used = world().tick(stranger);
  world().never_records = stranger;
  world().is_capturing = true;
  EXPECT_TRUE(source.deallocate(memory, stranger));
  EXPECT_FALSE(source.deallocate(memory, stranger));
  for (std::uint32_t const stream : {1u, 2u})
    EXPECT_THROW((void)source.allocate(1_MiB, stream), out_of_memory);
  EXPECT_EQ(source.counts().reserved, 1_MiB);
  world().is_capturing = false;
  EXPECT_EQ(source.allocate(1_MiB, 2), memory);
  EXPECT_TRUE(world().is_before(stranger, used, 2));
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, ServesMoreAlignmentThanItsOwnInTheOrderOfStreams) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const memory = source.allocate(1000, 64_KiB, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64_KiB, 0u);
  EXPECT_TRUE(source.audit().empty());
  auto const used = world().tick(1);
  source.deallocate(memory, 1);
  void* const all_memory = source.allocate(1_MiB, 2);  // includes the remainder
  EXPECT_TRUE(world().is_before(1, used, 2));
  source.deallocate(all_memory, 2);
  EXPECT_TRUE(source.audit().empty());
  EXPECT_THROW((void)source.allocate(8, 3, 1), bad_argument);
  EXPECT_THROW((void)source.allocate(8, bytes{1} << 60, 1), out_of_memory);
  EXPECT_EQ(source.counts().allocated, 0u);
}

TEST_F(StreamPool, DoesNotShareARemainderThatItsStreamMayStillUse) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  auto* const first = static_cast<char*>(source.allocate(32_KiB, 1));  // too small for an event
  auto const used = world().tick(1);
  source.deallocate(first, 1);
  void* const second = source.allocate(16_KiB, 16_KiB, 1);
  for (bytes i = 0; i < (1_MiB - 16_KiB) / 1_KiB; ++i) {
    auto* const each = static_cast<char*>(source.allocate(1_KiB, 2));
    bool const was_used = each >= first && each < first + 32_KiB;
    ASSERT_TRUE(!was_used || world().is_before(1, used, 2)) << each - first;
  }
  source.deallocate(second, 1);
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, ReturnsBlocksAfterTheirStreamsFinish) {
  auto& source = make();
  void* const memory = source.allocate(100, 1);
  auto const used = world().tick(1);
  source.deallocate(memory, 1);
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
  EXPECT_EQ(source.counts().blocks_returned, 1u);
  EXPECT_GE(world().finished[1], used);
}

TEST_F(StreamPool, LosesNothingIfAnEventFails) {
  for (int nth = 0; nth < 6; ++nth) {
    auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
    void* const first = source.allocate(512_KiB, 1);
    void* const second = source.allocate(512_KiB, 2);
    auto const used = world().tick(1);
    source.deallocate(first, 1);
    source.deallocate(second, 2);
    (nth % 2 == 0 ? world().record_fails_in : world().wait_fails_in) = nth / 2;
    void* result = nullptr;
    try {
      result = source.allocate(1_MiB, 3);
    } catch (std::exception const&) {
      result = source.allocate(1_MiB, 3);
    }
    EXPECT_EQ(result, std::min(first, second));
    EXPECT_TRUE(world().is_before(1, used, 3)) << nth;
    EXPECT_TRUE(source.audit().empty());
  }
}

/// A stream's use of memory comes after every earlier use of that memory. A block returns after
/// every use of its memory. Allocations do not overlap. A refused request would not fit even if the
/// pool returned all blocks that have no allocation.
TEST_F(StreamPool, OrdersEveryUseAfterAllEarlierUses) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random{seed};
    struct use {
      std::uint32_t stream;
      std::uint64_t time;
    };
    std::map<std::uint64_t, use> last;  // for each 256 bytes
    simulated_streams streams;
    auto const world = [&]() -> simulated_world& { return streams.world(); };
    auto const check_return = [&](std::uint64_t base, bytes size) {
      for (auto each = last.lower_bound(base); each != last.lower_bound(base + size); ++each)
        EXPECT_GE(world().finished[each->second.stream], each->second.time) << "seed " << seed;
    };
    auto watched = std::make_unique<stream_pool<watched_resource, simulated_streams>>(
        watched_resource{check_return, {}}, streams,
        stream_pool_options{.first_block = 256_KiB,
                            .next_block = 64_KiB,
                            .growth_percent = 0,
                            .alignment = 256,
                            .max_bytes = 1_MiB,
                            .grows_first = seed % 2 == 0});
    auto& source = *watched;
    world().done_percent = seed % 3 * 20;
    struct allocation {
      bytes size;
      std::uint32_t stream;
    };
    std::map<std::uint64_t, allocation> allocated;
    for (int step = 0; step < 3000; ++step) {
      auto const stream = static_cast<std::uint32_t>(1 + random() % 4);
      if (random() % 2 == 0 && !allocated.empty()) {
        auto const ended =
            std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
        // The allocation was used on its own stream, and perhaps on another stream afterwards.
        std::uint32_t user = ended->second.stream;
        if (random() % 4 == 0) {
          auto done = source.order().record(user);
          source.order().wait(stream, done);
          source.order().drop(done);
          user = stream;
        }
        auto const time = world().tick(user);
        for (bytes at = 0; at < ended->second.size; at += 256)
          last[ended->first + at] = {world().identity(user), time};
        ASSERT_TRUE(source.deallocate(reinterpret_cast<void*>(ended->first), user));
        allocated.erase(ended);
      } else {
        bytes const maximum = random() % 4 == 0 ? 400 : 20;
        bytes const size = 256 * (1 + random() % maximum);
        bytes const alignment = 256 << (maximum == 20 ? random() % 5 : 0);
        std::uint64_t base = 0;
        try {
          base = reinterpret_cast<std::uint64_t>(source.allocate(size, alignment, stream));
          ASSERT_EQ(base % alignment, 0u);
        } catch (out_of_memory const&) {
          ASSERT_GT(source.counts().reserved + size + alignment, 1_MiB) << "seed " << seed;
          continue;
        }
        for (bytes at = 0; at < size; at += 256) {
          if (auto const earlier = last.find(base + at); earlier != last.end()) {
            ASSERT_TRUE(world().is_before(earlier->second.stream, earlier->second.time, stream))
                << "seed " << seed << " step " << step;
          }
        }
        auto const next = allocated.lower_bound(base);
        ASSERT_TRUE(next == allocated.end() || base + size <= next->first);
        ASSERT_TRUE(next == allocated.begin() ||
                    std::prev(next)->first + std::prev(next)->second.size <= base);
        allocated[base] = {size, stream};
      }
      if (step % 500 == 499) source.forget(static_cast<std::uint32_t>(1 + random() % 4));
      if (step % 70 == 69) {
        // Destroys a stream. Another stream waits for it and inherits its allocations.
        auto const ended = static_cast<std::uint32_t>(1 + random() % 4);
        auto const heir = ended % 4 + 1;
        auto done = source.order().record(ended);
        source.order().wait(heir, done);
        source.order().drop(done);
        for (auto& [base, user] : allocated)
          user.stream = user.stream == ended ? heir : user.stream;
        world().destroy(ended);
        world().create(ended);
      }
      if (step % 50 == 0) {
        ASSERT_TRUE(source.audit().empty()) << source.audit()[0];
      }
    }
    EXPECT_LT(source.counts().events, source.counts().deallocations);
    for (auto const& [base, freed] : allocated)
      source.deallocate(reinterpret_cast<void*>(base), freed.stream);
    EXPECT_GT(source.counts().blocks_returned, 0u) << "seed " << seed;
    source.release();
    EXPECT_EQ(source.counts().reserved, 0u);
  }
}

/// A stream pool as a resource, on one stream.
struct on_one_stream {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = true;
  stream_pool<host_resource, simulated_streams> source{
      host_resource{}, simulated_streams{}, {.first_block = 64_KiB, .next_block = 16_KiB}};
  stream_resource<stream_pool<host_resource, simulated_streams>> resource{source, 3};

  static std::unique_ptr<on_one_stream> make() { return std::make_unique<on_one_stream>(); }
  void* allocate(bytes size) { return resource.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(registry::find(pointer)->size, size);
    resource.deallocate(pointer, size, alignment);
  }
};
bool const is_registered = conforms("StreamPool", testing::Types<on_one_stream>{});

}  // namespace stream_pool_test
}  // namespace quarry::test
