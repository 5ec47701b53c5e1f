// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/returned_slices.hpp"

#include "quarry/host/detail/slice_block_store.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace returned_slices_test {

constexpr auto owns_all = [](slice_block const&) { return true; };

/// Blocks of slices of different sizes, whose slices are all in use.
class used_blocks {
 public:
  explicit used_blocks(std::vector<bytes> const& sizes) {
    for (bytes const size : sizes) {
      auto const count = static_cast<std::uint32_t>(slice_block::size / size);
      store_.reserve(count);
      all_.push_back(&store_.take(count));
      all_.back()->lay_out(all_.size() * slice_block::size, size, nullptr);
      while (!all_.back()->is_full()) all_.back()->remove().set_in_use(size);
    }
  }
  [[nodiscard]] slice_block& operator[](std::size_t number) { return *all_[number]; }
  [[nodiscard]] std::size_t count() const { return all_.size(); }

 private:
  slice_block_store store_;
  std::vector<slice_block*> all_;
};

using taken_slices = std::multiset<std::pair<slice_block*, std::uint32_t>>;
/// Takes one group. Returns false if there is none.
bool take(returned_slices& source, taken_slices& taken) {
  return source.take(owns_all, [&](slice_block& block, std::uint32_t first, std::uint64_t bits) {
    for (; bits != 0; bits &= bits - 1)
      taken.emplace(&block, first + static_cast<std::uint32_t>(std::countr_zero(bits)));
  });
}

TEST(ReturnedSlices, AreTakenByGroupsOf64) {
  used_blocks blocks{{16}};
  returned_slices tested;
  taken_slices taken;
  EXPECT_TRUE(tested.is_empty());
  EXPECT_FALSE(take(tested, taken));
  for (std::uint32_t number = 0; number < 130; ++number) ASSERT_TRUE(tested.add(blocks[0], number));
  EXPECT_FALSE(tested.is_empty());
  std::set<std::size_t> counts;
  for (std::size_t before = 0; take(tested, taken); before = taken.size())
    counts.insert(taken.size() - before);
  EXPECT_EQ(counts, (std::set<std::size_t>{2, 64}));
  EXPECT_EQ(taken.size(), 130u);
  EXPECT_TRUE(tested.is_empty());
}

TEST(ReturnedSlices, ASliceIsRefusedUntilTheOwnerTakesIt) {
  used_blocks blocks{{4096}};
  returned_slices tested;
  EXPECT_FALSE(returned_slices::has(blocks[0], 15));
  EXPECT_TRUE(tested.add(blocks[0], 15));
  EXPECT_FALSE(tested.add(blocks[0], 15));
  EXPECT_TRUE(returned_slices::has(blocks[0], 15));
  EXPECT_FALSE(returned_slices::has(blocks[0], 14));
  taken_slices taken;
  EXPECT_TRUE(take(tested, taken));
  EXPECT_EQ(taken, (taken_slices{{&blocks[0], 15}}));
  EXPECT_TRUE(tested.add(blocks[0], 15));
}

TEST(ReturnedSlices, SkipABlockThatTheOwnerDoesNotHave) {
  used_blocks blocks{{64, 64}};
  returned_slices tested;
  for (std::size_t i : {0u, 1u}) ASSERT_TRUE(tested.add(blocks[i], 5));
  taken_slices taken;
  while (tested.take([&](slice_block const& block) { return &block == &blocks[1]; },
                     [&](slice_block& block, std::uint32_t, std::uint64_t bits) {
                       taken.emplace(&block, std::countr_zero(bits));
                     }))
    continue;
  EXPECT_EQ(taken, (taken_slices{{&blocks[1], 5}}));
  EXPECT_TRUE(returned_slices::has(blocks[0], 5));
}

TEST(ReturnedSlices, AgreeWithASetOfSlices) {
  used_blocks blocks{{16, 48, 64, 1008, 4096}};
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    returned_slices tested;
    std::set<std::pair<slice_block*, std::uint32_t>> expected;
    taken_slices taken;
    for (int step = 0; step < 5000; ++step) {
      slice_block& block = blocks[random() % blocks.count()];
      auto const number = static_cast<std::uint32_t>(random() % block.count());
      ASSERT_EQ(tested.add(block, number), expected.emplace(&block, number).second) << seed;
      if (random() % 100 != 0) continue;
      taken.clear();
      ASSERT_TRUE(take(tested, taken));
      for (auto const& slice : taken) ASSERT_EQ(expected.erase(slice), 1u) << seed;
    }
    taken.clear();
    while (take(tested, taken)) continue;
    ASSERT_EQ(taken, taken_slices(expected.begin(), expected.end())) << seed;
  }
}

/// Only the bits of the group tell the other thread that the owner has read the group's link.
TEST(ReturnedSlices, PassALinkFromTheOwnerToAThread) {
  used_blocks blocks{{1024}};
  returned_slices tested;
  std::atomic<bool> is_taken{false};
  std::thread other{[&] {
    // (N) orders nothing, so that ThreadSanitizer sees the order that the bits give.
    while (!is_taken.load(std::memory_order_relaxed)) std::this_thread::yield();  // (N)
    EXPECT_TRUE(tested.add(blocks[0], 1));
  }};
  taken_slices taken;
  EXPECT_TRUE(tested.add(blocks[0], 0));
  EXPECT_TRUE(take(tested, taken));
  is_taken.store(true, std::memory_order_relaxed);  // (N)
  other.join();
  EXPECT_TRUE(take(tested, taken));
  EXPECT_EQ(taken, (taken_slices{{&blocks[0], 0}, {&blocks[0], 1}}));
}

/// Two threads free slices while the owner takes and reuses them. The contents of a slice pass from
/// its user to its freeing thread and to the owner, without a lock. No slice is lost.
TEST(ReturnedSlices, PassTheContentsOfSlicesToTheOwner) {
  constexpr std::uint32_t count = 128;
  constexpr int rounds = 300;
  used_blocks blocks{{512}};
  returned_slices tested;
  std::vector<int> contents(count);
  // A slice in use belongs to the thread of its number's last bit. (B): the owner's release passes
  // it to the thread, which acquires it.
  std::array<std::atomic<int>, count> uses{};
  std::vector<std::thread> threads;
  for (std::uint32_t parity : {0u, 1u}) {
    threads.emplace_back([&, parity] {
      for (int round = 1; round <= rounds; ++round) {
        for (std::uint32_t number = parity; number < count; number += 2) {
          while (uses[number].load(std::memory_order_acquire) != round)  // (B)
            std::this_thread::yield();
          ++contents[number];
          EXPECT_TRUE(tested.add(blocks[0], number));
        }
      }
    });
  }
  std::vector<int> round_of(count, 1);
  for (auto& use : uses) use.store(1, std::memory_order_release);  // (B)
  for (int left = rounds * static_cast<int>(count); left != 0;) {
    if (tested.is_empty()) std::this_thread::yield();
    tested.take(owns_all, [&](slice_block&, std::uint32_t first, std::uint64_t bits) {
      for (; bits != 0; bits &= bits - 1, --left) {
        std::uint32_t const number = first + static_cast<std::uint32_t>(std::countr_zero(bits));
        EXPECT_EQ(++contents[number], 2 * round_of[number]);
        uses[number].store(++round_of[number], std::memory_order_release);  // (B)
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(tested.is_empty());
}

}  // namespace returned_slices_test
}  // namespace quarry::test
