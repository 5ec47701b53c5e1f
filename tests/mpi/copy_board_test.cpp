// SPDX-License-Identifier: Apache-2.0
// Ranks and copiers copy together (mpi/copy_board.hpp).
#include "mpi/copy_board.hpp"
#include "quarry/simt/launch.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

namespace quarry::test {
namespace copy_board_test {

using mpi::copy_board;

constexpr std::uint32_t ranks = 3, copiers = 2, rounds = 3;
constexpr std::uint64_t size = 4 * copy_board::part_bytes + 100;

/// Ranks that copy several times each, beside copiers that end after them.
class copying_lanes {
  auto copy_bytes() {
    return [this](char* to, char const* from, std::uint64_t count) {
      simt::pause();
      std::memcpy(to, from, count);
      copied_ += count;
    };
  }

 public:
  void run() {
    std::uint32_t const lane = static_cast<std::uint32_t>(simt::this_place().rank());
    if (lane >= ranks) {
      while (board_->ended() != ranks)
        if (!board_->help(lane, copy_bytes())) simt::pause();
      return;
    }
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::vector<char> const from(size, static_cast<char>(lane * rounds + round + 1));
      std::vector<char> to(size + 1);
      bool const is_done = board_->copy(to.data(), from.data(), size, copy_bytes());
      if (!is_done || std::memcmp(to.data(), from.data(), size) != 0 || to[size] != 0) ++wrong_;
    }
    board_->leave();
  }
  void expect_success() const {
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(copied_, ranks * rounds * size);
  }

 private:
  std::unique_ptr<copy_board> board_ = std::make_unique<copy_board>();
  std::atomic<std::uint64_t> copied_ = 0;
  std::atomic<std::uint32_t> wrong_ = 0;
};

TEST(CopyBoard, EachByteIsCopiedOnceWhenTheCopyReturns) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    copying_lanes lanes;
    simt::launch_fibers({1, ranks + copiers}, {.seed = seed}, [&] { lanes.run(); });
    lanes.expect_success();
  }
}

TEST(CopyBoard, ThreadsCopyTogether) {
  for (int i = 0; i < 20; ++i) {
    copying_lanes lanes;
    simt::launch_threads({1, ranks + copiers}, ranks + copiers, [&] { lanes.run(); });
    lanes.expect_success();
  }
}

TEST(CopyBoard, CopiesWithoutCopiers) {
  auto const board = std::make_unique<copy_board>();
  std::vector<char> const from(size, 5);
  std::vector<char> to(size);
  std::uint32_t parts = 0;
  EXPECT_TRUE(
      board->copy(to.data(), from.data(), size, [&](char* part, char const* source, auto n) {
        ++parts;
        std::memcpy(part, source, n);
      }));
  EXPECT_EQ(parts, 5u);
  EXPECT_EQ(to, from);
  EXPECT_FALSE(board->help(0, [](char*, char const*, std::uint64_t) { FAIL(); }));
}

/// Copies, and meanwhile copies again, until a copy is refused. Returns the number of copies.
std::uint32_t copies_at_once(copy_board& board) {
  char const from = 1;
  char to = 0;
  std::uint32_t others = 0;
  bool const is_done = board.copy(&to, &from, 1, [&](char* part, char const* source, auto) {
    others = copies_at_once(board);
    *part = *source;
  });
  EXPECT_EQ(to, is_done ? 1 : 0);
  return others + (is_done ? 1 : 0);
}

TEST(CopyBoard, RefusesMoreCopiesAtOnceThanItHasPlacesAndCopiesNothing) {
  auto const board = std::make_unique<copy_board>();
  EXPECT_EQ(copies_at_once(*board), copy_board::places);
  EXPECT_EQ(copies_at_once(*board), copy_board::places);
}

TEST(CopyBoard, RefusesACopyOfMorePartsThanItCounts) {
  auto const board = std::make_unique<copy_board>();
  EXPECT_FALSE(board->copy(nullptr, nullptr, copy_board::max_size + 1,
                           [](char*, char const*, std::uint64_t) { FAIL(); }));
}

}  // namespace copy_board_test
}  // namespace quarry::test
