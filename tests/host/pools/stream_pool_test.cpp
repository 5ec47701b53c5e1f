// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stream_pool.hpp"

#include "conformance/resources.hpp"
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace stream_pool_test {

using simulated_pool = stream_pool<simulated_resource, simulated_streams>;

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

TEST_F(StreamPool, GivesAStreamItsOwnMemoryAgainWithoutAnEvent) {
  auto& source = make();
  void* const first = source.allocate(1000, 1);
  for (int i = 0; i < 640; ++i) {
    EXPECT_TRUE(source.deallocate(first, 1));
    EXPECT_EQ(source.allocate(1000, 1), first);
  }
  EXPECT_LE(source.counts().events,
            640 * 1024 / (1_MiB / 16));  // one for each sixteenth of the pool
  EXPECT_EQ(source.counts().blocks_allocated, 1u);
}

TEST_F(StreamPool, MakesAnotherStreamWaitBeforeItGetsThatMemory) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const whole = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  source.deallocate(whole, 1);
  EXPECT_EQ(source.allocate(1_MiB, 2), whole);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_EQ(source.counts().events, 1u);
  EXPECT_EQ(source.counts().waits, 1u);
}

TEST_F(StreamPool, MakesAStreamWaitOnceForAllThatAnotherGaveBack) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  std::vector<void*> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(source.allocate(64_KiB, 1));
  for (void* const part : parts) source.deallocate(part, 1);
  for (int i = 0; i < 16; ++i) (void)source.allocate(64_KiB, 2);
  EXPECT_LE(source.counts().events, 8u);
  EXPECT_EQ(source.counts().waits, 1u);
}

TEST_F(StreamPool, DoesNotSplitItsMemoryBetweenStreamsThatAlternate) {
  auto& source = make({.first_block = 1_MiB, .next_block = 64_KiB, .max_bytes = 1_MiB});
  for (int round = 0; round < 200; ++round) {
    for (std::uint32_t const on : {1u, 2u}) {
      std::vector<void*> parts;
      bytes const size = bytes{1} << (8 + round % 12);
      for (bytes sum = 0; sum + size <= 1_MiB; sum += size)
        parts.push_back(source.allocate(size, on));
      for (void* const part : parts) ASSERT_TRUE(source.deallocate(part, on));
    }
  }
  EXPECT_EQ(source.counts().reserved, 1_MiB);
}

TEST_F(StreamPool, GrowsBeforeAStreamWaitsIfItIsToldTo) {
  auto& source =
      make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 2_MiB, .grows_first = true});
  source.deallocate(source.allocate(1_MiB, 1), 1);
  (void)source.allocate(1_MiB, 2);
  EXPECT_EQ(source.counts().waits, 0u);
  EXPECT_EQ(source.counts().reserved, 2_MiB);
  (void)source.allocate(1_MiB, 3);  // at its most it takes what stream 1 had
  EXPECT_EQ(source.counts().waits, 1u);
  EXPECT_THROW((void)source.allocate(1, 3), out_of_memory);
}

TEST_F(StreamPool, MakesNobodyWaitForWhatIsDone) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  world().done_percent = 100;
  source.deallocate(source.allocate(1_MiB, 1), 1);
  (void)source.allocate(1_MiB, 2);
  EXPECT_EQ(source.counts().waits, 0u);
  EXPECT_EQ(world().live_events, 0u);
}

/// The new stream must not take what the old one's work still uses for its own.
TEST_F(StreamPool, TellsANewStreamFromOneThatHadItsHandle) {
  for (bytes const size : {bytes{256}, bytes{64_KiB}, bytes{1_MiB}}) {
    SCOPED_TRACE(std::to_string(size) + " bytes");
    auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
    std::vector<void*> all;
    for (bytes sum = 0; sum < 1_MiB; sum += size) all.push_back(source.allocate(size, 1));
    auto const used = world().tick(1);
    for (void* const one : all) source.deallocate(one, 1);
    world().destroy(1);
    world().create(1);
    for (bytes sum = 0; sum < 1_MiB; sum += size) (void)source.allocate(size, 1);
    EXPECT_TRUE(world().is_before(1, used, 1));
    EXPECT_EQ(world().misuses, 0u);
  }
}

TEST_F(StreamPool, NeverAsksAboutAStreamThatIsGone) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 4_MiB});
  auto streams = source.order();
  for (std::uint32_t on = 1; on <= 3; ++on) {
    void* const small = source.allocate(1000, on);
    source.deallocate(source.allocate(600_KiB, on), on);
    source.deallocate(small, on);
    world().destroy(on);
  }
  (void)source.allocate(2_MiB, 4);  // grows, or takes what they had
  source.release();
  (void)source.allocate(100, 4);
  EXPECT_EQ(world().misuses, 0u);
  pool.reset();
  EXPECT_EQ(streams.world().misuses, 0u);
  EXPECT_EQ(streams.world().live_events, 0u);
}

/// What it was freed on a handle that is another stream's by now, before that stream
/// allocated.
TEST_F(StreamPool, KeepsWhatANewStreamGivesBackFromTheOldOnesEvent) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const early = source.allocate(32_KiB, 1);
  void* const rest = source.allocate(992_KiB, 2);
  auto const used = world().tick(1);
  source.deallocate(early, 1);
  world().destroy(1);
  world().create(1);
  source.deallocate(rest, 1);  // enough for an event, which is not the old stream's
  void* const whole = source.allocate(1_MiB, 3);
  EXPECT_TRUE(world().is_before(1, used, 3));
  EXPECT_NE(whole, nullptr);
}

TEST_F(StreamPool, TellsTheStreamsApartThatOneHandleStandsForInEachThread) {
  constexpr auto handle = simulated_streams::of_thread;
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB});
  world().identities[handle] = 11;  // the first thread
  void* const one = source.allocate(1000, handle);
  void* const other = source.allocate(1000, handle);
  EXPECT_TRUE(source.deallocate(one, handle));
  world().identities[handle] = 12;  // the second one uses memory that it was given
  auto const used = world().tick(handle);
  EXPECT_TRUE(source.deallocate(other, handle));
  world().identities[handle] = 11;
  EXPECT_EQ(source.allocate(1000, handle), one);
  void* const more = source.allocate(1000, handle);
  EXPECT_TRUE(more != other || world().is_before(12, used, handle));
}

TEST_F(StreamPool, ForgetsStreamsThatHaveNothing) {
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

TEST_F(StreamPool, KeepsAStreamsMemoryForItWhileNobodyCanWaitForAll) {
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

TEST_F(StreamPool, ForgetsAStreamThatItIsToldOf) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const whole = source.allocate(1_MiB, 1);
  source.deallocate(whole, 1);
  source.forget(1);
  EXPECT_EQ(source.counts().streams, 0u);
  EXPECT_EQ(source.allocate(1_MiB, 1), whole);
  EXPECT_EQ(source.counts().waits, 1u);
  source.forget(77);
}

TEST_F(StreamPool, WaitsForStreamsThatAreGoneBeforeItIs) {
  auto& source = make();
  auto streams = source.order();
  void* const one = source.allocate(100, 1);
  auto const used = streams.world().tick(1);
  source.deallocate(one, 1);
  source.forget(1);
  pool.reset();
  EXPECT_GE(streams.world().everywhere[1], used);
  EXPECT_EQ(streams.world().live_events, 0u);
}

TEST_F(StreamPool, WaitsForAStreamThatCannotBeRecorded) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  auto& sick = world().never_records;
  void* const whole = source.allocate(1_MiB, sick);
  auto const used = world().tick(sick);
  source.deallocate(whole, sick);
  EXPECT_EQ(source.allocate(1_MiB, 2), whole);
  EXPECT_GE(world().everywhere[sick], used);
  source.forget(sick);
}

TEST_F(StreamPool, RefusesWhatIsNoStream) {
  auto& source = make();
  EXPECT_THROW((void)source.allocate(10, simulated_streams::not_a_stream), bad_argument);
  void* const one = source.allocate(10, 1);
  EXPECT_TRUE(source.deallocate(one, simulated_streams::not_a_stream));
  EXPECT_EQ(source.counts().chunks_allocated, 0u);
}

TEST_F(StreamPool, HasOneEventAtMostForAStream) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  for (int i = 0; i < 100; ++i) source.deallocate(source.allocate(1_MiB, 1), 2);
  EXPECT_LE(world().live_events, 2u);
}

TEST_F(StreamPool, SharesAsOfNowWhenItIsTold) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const whole = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  source.deallocate(whole, 1);
  source.share(1);
  auto const later = world().tick(1);
  EXPECT_EQ(source.allocate(1_MiB, 2), whole);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_FALSE(world().is_before(1, later, 2));
}

TEST_F(StreamPool, RefusesADoubleFreeAndWhatIsNotItsOwn) {
  auto& source = make();
  void* const one = source.allocate(100, 1);
  EXPECT_TRUE(source.deallocate(one, 2));
  EXPECT_FALSE(source.deallocate(one, 2));
  EXPECT_FALSE(source.deallocate(reinterpret_cast<void*>(12345), 1));
  EXPECT_TRUE(source.deallocate(nullptr, 1));
  EXPECT_EQ(source.counts().invalid_frees, 2u);
  EXPECT_TRUE(source.audit().empty());
  EXPECT_THROW((void)make({.alignment = 24}), bad_argument);
}

TEST_F(StreamPool, KeepsForItsStreamWhatCannotBeWaitedFor) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const one = source.allocate(1_MiB, 1);
  auto const used = world().tick(1);
  world().never_records = 1;
  world().is_capturing = true;
  EXPECT_TRUE(source.deallocate(one, 1));
  source.share(1);
  EXPECT_THROW((void)source.allocate(1_MiB, 2), out_of_memory);
  EXPECT_EQ(source.allocate(1_MiB, 1), one) << "its own stream needs no wait";
  EXPECT_TRUE(source.deallocate(one, 1));
  world().is_capturing = false;
  EXPECT_EQ(source.allocate(1_MiB, 2), one);
  EXPECT_TRUE(world().is_before(1, used, 2));
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, KeepsFromAllWhatNoStreamIsKnownFor) {
  constexpr auto stranger = simulated_streams::not_a_stream;
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const one = source.allocate(1_MiB, 1);
  auto const used = world().tick(stranger);
  world().never_records = stranger;
  world().is_capturing = true;
  EXPECT_TRUE(source.deallocate(one, stranger));
  EXPECT_FALSE(source.deallocate(one, stranger));
  for (std::uint32_t const stream : {1u, 2u})
    EXPECT_THROW((void)source.allocate(1_MiB, stream), out_of_memory);
  EXPECT_EQ(source.counts().reserved, 1_MiB);
  world().is_capturing = false;
  EXPECT_EQ(source.allocate(1_MiB, 2), one);
  EXPECT_TRUE(world().is_before(stranger, used, 2));
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, ServesMoreAlignmentThanItsOwnInTheOrderOfStreams) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  void* const one = source.allocate(1000, 64_KiB, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % 64_KiB, 0u);
  EXPECT_TRUE(source.audit().empty());
  auto const used = world().tick(1);
  source.deallocate(one, 1);
  void* const whole = source.allocate(1_MiB, 2);  // what alignment left over is part of it
  EXPECT_TRUE(world().is_before(1, used, 2));
  source.deallocate(whole, 2);
  EXPECT_TRUE(source.audit().empty());
  EXPECT_THROW((void)source.allocate(8, 3, 1), bad_argument);
  EXPECT_THROW((void)source.allocate(8, bytes{1} << 60, 1), out_of_memory);
  EXPECT_EQ(source.counts().allocated, 0u);
}

TEST_F(StreamPool, TrimsNothingThatItsStreamMayStillUse) {
  auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
  auto* const one = static_cast<char*>(source.allocate(32_KiB, 1));  // too little for an event
  auto const used = world().tick(1);
  source.deallocate(one, 1);
  void* const two = source.allocate(16_KiB, 16_KiB, 1);
  for (bytes i = 0; i < (1_MiB - 16_KiB) / 1_KiB; ++i) {
    auto* const each = static_cast<char*>(source.allocate(1_KiB, 2));
    bool const was_used = each >= one && each < one + 32_KiB;
    ASSERT_TRUE(!was_used || world().is_before(1, used, 2)) << each - one;
  }
  source.deallocate(two, 1);
  EXPECT_TRUE(source.audit().empty());
}

TEST_F(StreamPool, GivesBlocksBackOnceTheirUsersAreDone) {
  auto& source = make();
  void* const one = source.allocate(100, 1);
  auto const used = world().tick(1);
  source.deallocate(one, 1);
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
  EXPECT_EQ(source.counts().blocks_returned, 1u);
  EXPECT_GE(world().everywhere[1], used);
}

TEST_F(StreamPool, LosesNothingIfAnEventFails) {
  for (int nth = 0; nth < 6; ++nth) {
    auto& source = make({.first_block = 1_MiB, .next_block = 1_MiB, .max_bytes = 1_MiB});
    void* const one = source.allocate(512_KiB, 1);
    void* const two = source.allocate(512_KiB, 2);
    auto const used = world().tick(1);
    source.deallocate(one, 1);
    source.deallocate(two, 2);
    (nth % 2 == 0 ? world().record_fails_in : world().wait_fails_in) = nth / 2;
    void* got = nullptr;
    try {
      got = source.allocate(1_MiB, 3);
    } catch (std::exception const&) {
      got = source.allocate(1_MiB, 3);
    }
    EXPECT_EQ(got, std::min(one, two));
    EXPECT_TRUE(world().is_before(1, used, 3)) << nth;
    EXPECT_TRUE(source.audit().empty());
  }
}

/// Whoever gets memory comes after all who used it before; nothing in use overlaps; what is refused
/// would not fit though all blocks without anything in use went back.
TEST_F(StreamPool, OrdersEveryUseAfterTheOnesBeforeIt) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random{seed};
    auto& source = make({.first_block = 256_KiB,
                         .next_block = 64_KiB,
                         .growth_percent = 0,
                         .alignment = 256,
                         .max_bytes = 1_MiB,
                         .grows_first = seed % 2 == 0});
    world().done_percent = seed % 3 * 20;
    struct use {
      std::uint32_t stream;
      std::uint64_t time;
    };
    std::map<std::uint64_t, use> last;  // of each 256 bytes
    struct one {
      bytes size;
      std::uint32_t on;
    };
    std::map<std::uint64_t, one> allocated;
    for (int step = 0; step < 3000; ++step) {
      auto const on = static_cast<std::uint32_t>(1 + random() % 4);
      if (random() % 2 == 0 && !allocated.empty()) {
        auto const ended =
            std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
        // It was used on its own stream, perhaps on another after that.
        std::uint32_t stream = ended->second.on;
        if (random() % 4 == 0) {
          auto done = source.order().record(stream);
          source.order().wait(on, done);
          source.order().drop(done);
          stream = on;
        }
        auto const time = world().tick(stream);
        for (bytes at = 0; at < ended->second.size; at += 256)
          last[ended->first + at] = {world().identity(stream), time};
        ASSERT_TRUE(source.deallocate(reinterpret_cast<void*>(ended->first), stream));
        allocated.erase(ended);
      } else {
        bytes const maximum = random() % 4 == 0 ? 400 : 20;
        bytes const size = 256 * (1 + random() % maximum);
        bytes const alignment = 256 << (maximum == 20 ? random() % 5 : 0);
        std::uint64_t base = 0;
        try {
          base = reinterpret_cast<std::uint64_t>(source.allocate(size, alignment, on));
          ASSERT_EQ(base % alignment, 0u);
        } catch (out_of_memory const&) {
          ASSERT_GT(source.counts().reserved + size + alignment, 1_MiB) << "seed " << seed;
          continue;
        }
        for (bytes at = 0; at < size; at += 256) {
          if (auto const before = last.find(base + at); before != last.end()) {
            ASSERT_TRUE(world().is_before(before->second.stream, before->second.time, on))
                << "seed " << seed << " step " << step;
          }
        }
        auto const next = allocated.lower_bound(base);
        ASSERT_TRUE(next == allocated.end() || base + size <= next->first);
        ASSERT_TRUE(next == allocated.begin() ||
                    std::prev(next)->first + std::prev(next)->second.size <= base);
        allocated[base] = {size, on};
      }
      if (step % 500 == 499) source.forget(static_cast<std::uint32_t>(1 + random() % 4));
      if (step % 70 ==
          69) {  // one that has nothing: what it has is taken over by a stream that waits
        auto const ended = static_cast<std::uint32_t>(1 + random() % 4);
        auto const heir = ended % 4 + 1;
        auto done = source.order().record(ended);
        source.order().wait(heir, done);
        source.order().drop(done);
        for (auto& [base, what] : allocated) what.on = what.on == ended ? heir : what.on;
        world().destroy(ended);
        world().create(ended);
      }
      if (step % 50 == 0) {
        ASSERT_TRUE(source.audit().empty()) << source.audit()[0];
      }
    }
    EXPECT_LT(source.counts().events, source.counts().deallocations);
    for (auto const& [base, what] : allocated)
      source.deallocate(reinterpret_cast<void*>(base), what.on);
    source.release();
    EXPECT_EQ(source.counts().reserved, 0u);
    pool.reset();
  }
}

/// As a resource, on one stream.
struct on_one_stream {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = true;
  stream_pool<host_resource, simulated_streams> source{
      host_resource{}, simulated_streams{}, {.first_block = 64_KiB, .next_block = 16_KiB}};
  stream_resource<stream_pool<host_resource, simulated_streams>> on{source, 3};

  static std::unique_ptr<on_one_stream> make() { return std::make_unique<on_one_stream>(); }
  void* allocate(bytes size) { return on.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(registry::find(pointer)->size, size);
    on.deallocate(pointer, size, alignment);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(StreamPool, ResourceConformance, on_one_stream);

}  // namespace stream_pool_test
}  // namespace quarry::test
