// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/segment_table.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>

namespace quarry {

using namespace detail;
namespace segment_table_test {

TEST(SegmentUse, IsOneOfFourKinds) {
  EXPECT_TRUE(segment_use{}.is_free()) << "zeroed memory";
  EXPECT_TRUE(segment_use::free_use().is_free());
  EXPECT_EQ(segment_use::free_use().bits(), 0u);
  for (size_class id = 0; id < max_size_classes; ++id) {
    auto const use = segment_use::slices_of(id, block_state::last_generation);
    EXPECT_TRUE(use.is_slices() && !use.is_free() && !use.is_head() && !use.is_tail());
    EXPECT_EQ(use.slices_class(), id);
    EXPECT_TRUE(use.is_slices_of(id) && !use.is_slices_of(id + 1));
    EXPECT_EQ(use.generation(), block_state::last_generation);
    EXPECT_FALSE(use == segment_use::slices_of(id, 0)) << "another use for the same class";
  }
  auto const head = segment_use::head(1u << 20);
  EXPECT_TRUE(head.is_head() && !head.is_slices() && !head.is_free() && !head.is_tail());
  EXPECT_EQ(head.count(), 1u << 20);
  auto const tail = segment_use::tail(3);
  EXPECT_TRUE(tail.is_tail() && !tail.is_slices() && !tail.is_free() && !tail.is_head());
  EXPECT_EQ(tail.count(), 3u);
}

TEST(SliceLayout, KeepsItsSlicesAndDivider) {
  for (std::uint32_t const size : {16u, 48u, 80u, 7u << 20, 32u << 20}) {
    slice_layout const layout{1u << 22, divider::for_divisor(size)};
    EXPECT_EQ(layout.slices(), 1u << 22);
    EXPECT_TRUE(slice_layout{layout.bits()}.slices() == layout.slices());
    for (std::uint32_t n = 0; n < 1u << 26; n += 65537)
      ASSERT_EQ(layout.by_size().quotient(n), n / size);
  }
}

TEST(SegmentEntry, KeepsItsUseAndLayout) {
  segment_entry entry{};
  slice_layout const layout{819, divider::for_divisor(80)};
  entry.store(segment_use::slices_of(4, 9), layout);
  EXPECT_TRUE(entry.load() == segment_use::slices_of(4, 9));
  for (auto const& seen : {entry.look(), entry.look_past_cache()}) {
    EXPECT_TRUE(seen.use == entry.load());
    EXPECT_EQ(seen.layout.bits(), layout.bits());
  }
}

/// A thread that reads the use and the layout while another thread changes them sees only pairs
/// that were stored together.
TEST(SegmentEntry, ReadsUseAndLayoutConsistently) {
  segment_entry entry{};
  std::atomic<bool> done{false};
  std::atomic<std::uint32_t> wrong{0};
  simt::launch_threads({2, 1}, 2, [&] {
    if (simt::this_place().block == 0) {
      for (std::uint32_t i = 1; i <= 20000; ++i) {
        entry.store(segment_use::slices_of(1, i % block_state::last_generation),
                    slice_layout{i % block_state::last_generation, divider::for_divisor(32)});
        entry.store(segment_use::free_use());
      }
      done = true;
    } else {
      while (!done) {
        auto const seen = entry.look();
        if (seen.use.is_slices() && seen.layout.slices() != seen.use.generation()) ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
}

TEST(SegmentEntry, ChangesItsGenerationAfterEachUseAndWrapsAround) {
  segment_entry entry{};
  entry.count = word{block_state::last_generation - 1} << 17 | word{7} << 48;
  for (std::uint32_t const generation :
       {block_state::last_generation - 1, block_state::last_generation, 0u, 1u}) {
    EXPECT_EQ(entry.generation(), generation);
    ASSERT_TRUE(entry.add_free_blocks(4, 4));
    EXPECT_EQ(entry.generation(), generation)
        << "the generation changes only when the segment is free";
    entry.end_retirement(entry.load_idle_state());
    EXPECT_EQ(entry.load_idle_state().known_blocks(), 0u) << "all";
    EXPECT_EQ(entry.free_blocks(), 0u);
  }
}

TEST(SegmentEntry, WrapsItsGenerationAroundAlsoWithoutAllocations) {
  segment_entry entry{};
  entry.count = word{block_state::last_generation - 1} << 17 | word{7} << 48;
  for (std::uint32_t const generation :
       {block_state::last_generation - 1, block_state::last_generation, 0u, 1u}) {
    EXPECT_EQ(entry.generation(), generation);
    entry.begin_generation(entry.load_idle_state(), 4);
    EXPECT_EQ(entry.load_idle_state().known_blocks(), 4u);
    EXPECT_EQ(entry.free_blocks(), 0u);
  }
}

TEST(SegmentEntry, KnowsWhichBlocksHaveItsGeneration) {
  segment_entry entry{};
  EXPECT_TRUE(entry.load_idle_state().knows(1) && entry.load_idle_state().knows(4096))
      << "no block was used";
  entry.begin_generation(entry.load_idle_state(), 4);
  EXPECT_TRUE(entry.load_idle_state().knows(4) && !entry.load_idle_state().knows(5));
  entry.begin_generation(entry.load_idle_state(), 1);
  EXPECT_TRUE(entry.load_idle_state().knows(1) && !entry.load_idle_state().knows(2));
  ASSERT_TRUE(entry.add_free_blocks(1, 1));
  entry.end_retirement(entry.load_idle_state());
  EXPECT_TRUE(entry.load_idle_state().knows(1) && entry.load_idle_state().knows(4096))
      << "the lane that returns a used segment renews all blocks";
}

TEST(SegmentEntry, ChangesItsUseOnlyFromTheExpectedUse) {
  segment_entry entry{};
  entry.store(segment_use::head(2));
  EXPECT_FALSE(entry.change(segment_use::head(3), segment_use::free_use()));
  EXPECT_TRUE(entry.change(segment_use::head(2), segment_use::free_use()));
  EXPECT_FALSE(entry.change(segment_use::head(2), segment_use::free_use()))
      << "a second free of the same memory";
}

TEST(SegmentEntry, BelongsToTheCallerThatAddsItsLastFreeBlock) {
  segment_entry entry{};
  EXPECT_FALSE(entry.add_free_blocks(1, 3));
  EXPECT_FALSE(entry.add_free_blocks(1, 3));
  EXPECT_EQ(entry.free_blocks(), 2u);
  EXPECT_TRUE(entry.add_free_blocks(1, 3));
  entry.end_retirement(entry.load_idle_state());
  EXPECT_EQ(entry.free_blocks(), 0u);
}

TEST(SegmentEntry, BelongsToACallerThatAddsAllItsBlocksAtOnce) {
  segment_entry entry{};
  EXPECT_TRUE(entry.add_free_blocks(4096, 4096));
  entry.end_retirement(entry.load_idle_state());
  EXPECT_EQ(entry.free_blocks(), 0u);
}

TEST(SegmentEntry, HasNoBlockToReserveWhileItIsReturned) {
  segment_entry entry{};
  ASSERT_TRUE(entry.add_free_blocks(2, 2));
  EXPECT_FALSE(entry.reserve_free_block());
  entry.end_retirement(entry.load_idle_state());
  EXPECT_FALSE(entry.reserve_free_block()) << "its next use begins with all blocks in use";
  EXPECT_FALSE(entry.add_free_blocks(1, 2));
  EXPECT_TRUE(entry.reserve_free_block());
}

TEST(SegmentEntry, ReservesAsManyBlocksAsAreFree) {
  segment_entry entry{};
  EXPECT_FALSE(entry.reserve_free_block());
  EXPECT_FALSE(entry.add_free_blocks(2, 5));
  EXPECT_TRUE(entry.reserve_free_block());
  EXPECT_TRUE(entry.reserve_free_block());
  EXPECT_FALSE(entry.reserve_free_block());
}

TEST(SegmentEntry, AReservedBlockKeepsTheSegmentUntilItIsAddedAgain) {
  segment_entry entry{};
  EXPECT_FALSE(entry.add_free_blocks(1, 2));
  ASSERT_TRUE(entry.reserve_free_block());
  EXPECT_FALSE(entry.add_free_blocks(1, 2)) << "all other blocks are free";
  EXPECT_TRUE(entry.add_free_blocks(1, 2));
}

/// One lane for each block makes its block free, may reserve a block and add it again, and waits
/// for the segment's next use. The lane that gets the segment ends the use. The lanes' earlier
/// writes are plain memory.
class contested_segment {
 public:
  static constexpr std::uint32_t blocks = 4;

  void work(std::uint32_t block, std::uint32_t uses) {
    for (std::uint32_t use = 0; use < uses; ++use) {
      written_[block] = use + 1;
      if (entry_.add_free_blocks(1, blocks)) return_segment();
      if (entry_.reserve_free_block() && entry_.add_free_blocks(1, blocks)) return_segment();
      while (simt::atomic_ref<std::uint32_t>{uses_}.load(simt::acquire) == use) simt::pause();
    }
  }

  void expect_uses(std::uint32_t uses) const {
    EXPECT_EQ(uses_, uses);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(entry_.free_blocks(), 0u);
  }

 private:
  void return_segment() {
    std::uint32_t const use = simt::atomic_ref<std::uint32_t>{uses_}.load(simt::relaxed);
    for (std::uint32_t const written : written_) wrong_ += written == use + 1 ? 0 : 1;
    entry_.end_retirement(entry_.load_idle_state());
    simt::atomic_ref<std::uint32_t>{uses_}.fetch_add(1, simt::release);
  }

  segment_entry entry_{};
  std::array<std::uint32_t, blocks> written_{};
  std::uint32_t uses_ = 0;
  std::atomic<std::uint32_t> wrong_{0};
};

TEST(SegmentEntry, OneLaneGetsTheSegmentInEachUseInFibers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    contested_segment contested;
    simt::launch_fibers({1, contested_segment::blocks}, {.seed = seed, .switches = 128},
                        [&] { contested.work(simt::this_place().thread, 8); });
    contested.expect_uses(8);
  }
}

TEST(SegmentEntry, OneThreadGetsTheSegmentAndSeesTheWritesOfAllThreads) {
  contested_segment contested;
  simt::launch_threads({1, contested_segment::blocks}, contested_segment::blocks,
                       [&] { contested.work(simt::this_place().thread, 500); });
  contested.expect_uses(500);
}

TEST(SegmentEntry, TheLastThreadGetsTheSegmentAndSeesAllWritesWithoutReservations) {
  for (int round = 0; round < 200; ++round) {
    segment_entry entry{};
    std::array<int, 3> written{};
    simt::launch_threads({1, 3}, 3, [&] {
      written[simt::this_place().thread] = 1;
      if (entry.add_free_blocks(1, 3)) {
        EXPECT_EQ(written[0] + written[1] + written[2], 3);
      }
    });
  }
}

TEST(SegmentEntry, AThreadThatReservesABlockSeesTheWritesOfItsReleaser) {
  for (int round = 0; round < 200; ++round) {
    segment_entry entry{};
    int written = 0;
    simt::launch_threads({1, 2}, 2, [&] {
      if (simt::this_place().thread == 0) {
        written = 1;
        EXPECT_FALSE(entry.add_free_blocks(1, 2));
      } else {
        while (!entry.reserve_free_block()) simt::pause();
        EXPECT_EQ(written, 1);
      }
    });
  }
}

}  // namespace segment_table_test
}  // namespace quarry
