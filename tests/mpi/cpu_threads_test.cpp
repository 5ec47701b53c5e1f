// SPDX-License-Identifier: Apache-2.0
// Ranks that are fibers on several threads: their shares, their ends, and deadlocks. The other
// tests of the runtime also run so (support/ranks.hpp).
#include "mpi/cpu_threads.hpp"

#include "mpi/rank.hpp"
#include "mpi/rank_memory.hpp"
#include "mpi/support/ranks.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace quarry::test {
namespace cpu_threads_test {

TEST(CpuThreads, EachRankHasOneThread) {
  shared_random random{1};
  for (int round = 0; round < 500; ++round) {
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(round % 2 == 0 ? 40 : 4000));
    auto const threads = static_cast<std::uint32_t>(1 + random.below(20));
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(threads) + " threads");
    std::uint64_t end = 0, most = 0;
    for (std::uint32_t i = 0; i < threads; ++i) {
      simt::lane_part const part = mpi::part_of(ranks, threads, i);
      EXPECT_EQ(part.number, i);
      EXPECT_EQ(part.first, end);
      end = part.first + part.count;
      most = std::max(most, part.count);
      if (ranks >= 32 * threads) {
        EXPECT_EQ(part.first % 32, 0u);  // whole warps
      }
    }
    EXPECT_EQ(end, ranks);
    std::uint64_t const unit = ranks >= 32 * threads ? 32 : 1;
    EXPECT_LE(most, (ranks + threads - 1) / threads + unit);
  }
}

TEST(CpuThreads, ARankStaysOnItsThread) {
  std::array<std::atomic<int>, 3> first{};
  auto const result = run_on_fibers(9, {.threads = 3}, [&] {
    thread_local char const tag = 0;
    char const* const before = &tag;
    int const rank = rank_in(MPI_COMM_WORLD);
    EXPECT_EQ(simt::current_lane->thread(), static_cast<std::uint32_t>(rank / 3));
    ++first[simt::current_lane->thread()];
    for (int i = 0; i < 10; ++i) MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(&tag, before);
  });
  EXPECT_EQ(result.status, 0);
  for (auto const& count : first) EXPECT_EQ(count, 3);
}

TEST(CpuThreads, AnExceptionOnOneThreadEndsTheOthers) {
  std::atomic<int> ends{0}, aborts{0};
  std::atomic<bool> ended{false};
  auto const run = [&](simt::lane_part part) {
    if (part.number == 2) throw std::runtime_error{"third"};
    while (!ended) simt::yield_thread();
    ++ends;
  };
  auto const end_ranks = [&] {
    ++aborts;
    ended = true;
  };
  EXPECT_THROW(mpi::run_on_threads(8, 4, run, end_ranks), std::runtime_error);
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(aborts, 1);
}

/// All ranks but one wait, and the one that runs changes with each message.
void pass_token(int rounds) {
  int const rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  shared_random random{7};
  int holder = 0, token = 0;
  for (int round = 0; round < rounds; ++round) {
    int const next = (holder + 1 + random.below(size - 1)) % size;
    if (rank == holder) {
      ++token;
      MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    } else if (rank == next) {
      MPI_Recv(&token, 1, MPI_INT, holder, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(token, round + 1);
    }
    holder = next;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(CpuThreads, NoDeadlockIsReportedWhileAnyRankGoesOn) {
  for (std::uint64_t const seed : interleavings(40)) {
    for (std::uint32_t const threads : {2u, 3u}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(threads) + " threads");
      auto const result =
          run_on_fibers(6, {.seed = seed, .threads = threads, .switches = seed % 2 == 0 ? 64u : 0u},
                        [] { pass_token(200); });
      EXPECT_FALSE(result.is_deadlocked);
      EXPECT_EQ(result.status, 0);
    }
  }
}

/// Rank 1 gives rank 0 what it waits for while rank 0 looks for it in vain, and then waits itself
/// and says so before rank 0 does.
TEST(CpuThreads, WhatHappensDuringALookIsNotOverlooked) {
  std::atomic<bool> is_given{false}, looks{false}, is_taken{false};
  auto const result = run_on_fibers(2, {.threads = 2, .switches = 0}, [&] {
    auto const reason = mpi::reason_of(mpi::call::recv);
    mpi::rank_state& other = mpi::state_of(1);
    std::uint32_t polls = 0;
    if (rank_in(MPI_COMM_WORLD) == 0) {
      mpi::poll_until(mpi::self(), reason, [&] {
        bool const found = is_given;
        static_assert(mpi::is_reported(63));
        if (polls++ == 63) {
          looks = true;
          simt::atomic_ref<std::uint64_t> const polled_at{other.polled_at};
          while (!found && polled_at.load(simt::acquire) == mpi::no_activity) simt::yield_thread();
        }
        return found;
      });
      EXPECT_EQ(polls, 65u);
      is_taken = true;
      mpi::note_activity();
    } else {
      while (!looks) simt::yield_thread();
      is_given = true;
      mpi::note_activity();
      mpi::poll_until(mpi::self(), reason, [&] { return is_taken.load(); });
    }
  });
  EXPECT_FALSE(result.is_deadlocked);
  EXPECT_EQ(result.status, 0);
}

TEST(CpuThreads, ADeadlockIsReportedWhereverItsRanksRun) {
  for (std::uint64_t const seed : interleavings(40)) {
    for (int const last : {1, 5}) {  // a circle on one thread, while others wait for it; on both
      SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks 0 to " + std::to_string(last));
      auto const result = run_on_fibers(6, {.seed = seed, .threads = 2}, [last] {
        pass_token(20);
        int const rank = rank_in(MPI_COMM_WORLD);
        int value = 0;
        if (rank <= last)
          MPI_Recv(&value, 1, MPI_INT, (rank + 1) % (last + 1), 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
      });
      EXPECT_TRUE(result.is_deadlocked);
    }
  }
}

/// Rank 0 takes all memory and frees it when the last rank asks, which waits for memory itself.
TEST(CpuThreads, RanksThatWaitForMemoryThatARankFreesAreNotDeadlocked) {
  for (std::uint64_t const seed : interleavings(100)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const body = [] {
      int const rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
      std::vector<int> data(2000, rank), got(2000, -1);
      std::vector<void*> taken;
      MPI_Barrier(MPI_COMM_WORLD);  // ranks need memory to begin
      if (rank == 0)
        for (std::size_t bytes = 1 << 20; bytes >= 16; bytes /= 2)
          while (void* const memory = mpi::allocate_for_program(bytes)) taken.push_back(memory);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        int asks = 0;  // comes in a slot, which needs no memory
        MPI_Recv(&asks, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (void* const memory : taken) mpi::free_for_program(memory);
      } else {
        if (rank == size - 1) MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        int const next = rank % (size - 1) + 1, previous = (rank + size - 3) % (size - 1) + 1;
        int stack[2000];  // so that the message is copied
        for (int i = 0; i < 2000; ++i) stack[i] = rank;
        MPI_Sendrecv(stack, 2000, MPI_INT, next, 0, got.data(), 2000, MPI_INT, previous, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(got[1999], previous);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    };
    auto const result =
        run_on_fibers(5, {.seed = seed, .threads = 2}, body, std::uint64_t{4} << 20);
    EXPECT_FALSE(result.is_deadlocked);
    EXPECT_EQ(result.status, 0);
  }
}

}  // namespace cpu_threads_test
}  // namespace quarry::test
