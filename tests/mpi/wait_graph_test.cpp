// SPDX-License-Identifier: Apache-2.0
#include "mpi/wait_graph.hpp"

#include "mpi/calls.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quarry::test {
namespace wait_graph_test {

using mpi::rank_state;

rank_state running() {
  rank_state made{};
  made.stage = mpi::life::running;
  return made;
}
rank_state ended() {
  rank_state made{};
  made.stage = mpi::life::done;
  return made;
}
/// A rank that waits in MPI_Recv for a rank of the world.
rank_state receiving_from(int rank) {
  rank_state made = running();
  made.waiting.call = static_cast<std::uint32_t>(mpi::call::recv);
  made.waiting.peer = made.awaited = rank;
  return made;
}
rank_state in(mpi::call which) {
  rank_state made = running();
  made.waiting.call = static_cast<std::uint32_t>(which);
  made.waiting.peer = MPI_PROC_NULL;
  made.awaited = MPI_ANY_SOURCE;
  return made;
}

std::string graph(std::vector<rank_state> const& ranks) { return mpi::describe_wait_graph(ranks); }

TEST(WaitGraph, ShowsCircles) {
  EXPECT_EQ(graph({receiving_from(1), receiving_from(2), receiving_from(0)}),
            "  a circle of 3 ranks: 0 -> 1 -> 2 -> 0\n");
  EXPECT_EQ(graph({receiving_from(1), receiving_from(0), receiving_from(3), receiving_from(2),
                   receiving_from(4), receiving_from(0)}),
            "  a circle of 1 rank: 4 -> 4\n"
            "  a circle of 2 ranks: 0 -> 1 -> 0, and 1 other of this length\n");
  std::vector<rank_state> ring;
  for (int i = 0; i < 1000; ++i) ring.push_back(receiving_from((i + 999) % 1000));
  EXPECT_EQ(graph(ring),
            "  a circle of 1000 ranks: 0 -> 999 -> 998 -> 997 -> 996 -> 995 -> 994 -> 993 -> ... "
            "-> 0\n");
}

TEST(WaitGraph, RanksThatReduceOtherCountsOfNumbersAreMissing) {
  auto const reducing = [](int numbers) {
    rank_state made = in(mpi::call::allreduce);
    made.waiting.tag = numbers;
    return made;
  };
  EXPECT_EQ(graph({reducing(3), reducing(3), reducing(5), reducing(3)}),
            "  a circle of 2 ranks: 0 -> 2 -> 0\n");
}

TEST(WaitGraph, ShowsForWhomTheOthersWait) {
  EXPECT_EQ(graph({receiving_from(1), receiving_from(2), ended(), receiving_from(4), running()}),
            "  2 ranks wait, directly or through others, for rank 2, which has ended\n"
            "  1 rank waits, directly or through others, for rank 4, which does not wait\n");
  EXPECT_EQ(graph({in(mpi::call::barrier), in(mpi::call::barrier), ended(),
                   receiving_from(MPI_ANY_SOURCE)}),
            "  2 ranks wait, directly or through others, for rank 2, which has ended\n");
  EXPECT_EQ(graph({running(), receiving_from(MPI_ANY_SOURCE), ended()}), "");
}

TEST(WaitGraph, ShowsThatOperationsDiffer) {
  EXPECT_EQ(graph({in(mpi::call::barrier), in(mpi::call::bcast), in(mpi::call::barrier)}),
            "  a circle of 2 ranks: 0 -> 1 -> 0\n");
  EXPECT_EQ(graph({in(mpi::call::shared_allreduce), in(mpi::call::shared_gather)}),
            "  a circle of 2 ranks: 0 -> 1 -> 0\n");
}

TEST(WaitGraph, KnowsTheOperationsThatNeedAllRanks) {
  for (mpi::call const which :
       {mpi::call::finalize, mpi::call::scan, mpi::call::comm_create, mpi::call::shared_scatter,
        mpi::call::shared_bcast, mpi::call::shared_allreduce})
    EXPECT_EQ(graph({in(which), ended()}),
              "  1 rank waits, directly or through others, for rank 1, which has ended\n");
  for (mpi::call const which : {mpi::call::probe, mpi::call::memory, mpi::call::buffer_detach})
    EXPECT_EQ(graph({in(which), ended()}), "");
}

/// In a communicator whose messages have the context 4, and whose operations have 5.
rank_state in_part(mpi::call which) {
  rank_state made = in(which);
  made.waiting.context = 5;
  return made;
}

TEST(WaitGraph, ShowsThatOperationsOfACommunicatorDiffer) {
  EXPECT_EQ(graph({running(), in_part(mpi::call::allreduce), in_part(mpi::call::shared_bcast),
                   in_part(mpi::call::allreduce)}),
            "  a circle of 2 ranks: 1 -> 2 -> 1\n");
  rank_state receiver = receiving_from(MPI_ANY_SOURCE);
  receiver.waiting.context = 4;
  EXPECT_EQ(graph({in_part(mpi::call::barrier), in(mpi::call::bcast), ended(), receiver}),
            "  2 ranks wait, directly or through others, for rank 3, which waits for any rank\n");
}

TEST(WaitGraph, ACopyOfTheWorldLacksEachRankThatIsElsewhere) {
  auto const in_copy = [](mpi::call which) {
    rank_state made = in_part(which);
    made.awaiting_members = 3;
    return made;
  };
  EXPECT_EQ(graph({in_copy(mpi::call::barrier), in_copy(mpi::call::barrier), ended()}),
            "  2 ranks wait, directly or through others, for rank 2, which has ended\n");
  EXPECT_EQ(
      graph({in_copy(mpi::call::barrier), in_copy(mpi::call::barrier), in(mpi::call::barrier)}),
      "  a circle of 2 ranks: 0 -> 2 -> 0\n");
}

TEST(WaitGraph, SaysOfARankThatWaitsForNoneInParticular) {
  rank_state in_waitany = in(mpi::call::wait);
  for (rank_state const& last : {in_part(mpi::call::barrier), in_waitany})
    EXPECT_EQ(graph({receiving_from(1), last}),
              "  1 rank waits, directly or through others, for rank 1, which waits for no single "
              "rank\n");
}

TEST(WaitGraph, DoesNotTellWhomAnOperationOfACommunicatorLacks) {
  EXPECT_EQ(graph({in_part(mpi::call::barrier), in_part(mpi::call::barrier), ended(), running()}),
            "");
}

/// Each rank follows its edges until a rank that does not wait, or a rank that it has seen.
TEST(WaitGraph, CountsTheWaitersThatAModelFinds) {
  std::mt19937 random{11};
  for (int round = 0; round < 200; ++round) {
    int const size = 1 + static_cast<int>(random() % 12);
    std::vector<int> next;
    std::vector<rank_state> ranks;
    for (int i = 0; i < size; ++i) {
      bool const is_end = random() % 4 == 0;
      next.push_back(is_end ? -1 : static_cast<int>(random() % static_cast<unsigned>(size)));
      ranks.push_back(is_end ? ended() : receiving_from(next.back()));
    }
    std::vector<int> waiters(next.size(), 0);
    for (int i = 0; i < size; ++i) {
      int at = i;
      for (int step = 0; step < size && next[static_cast<std::size_t>(at)] >= 0; ++step)
        at = next[static_cast<std::size_t>(at)];
      if (at != i && next[static_cast<std::size_t>(at)] < 0)
        ++waiters[static_cast<std::size_t>(at)];
    }
    std::string const text = graph(ranks);
    int shown = 0;
    for (int i = 0; i < size; ++i) {
      int const count = waiters[static_cast<std::size_t>(i)];
      std::string const row = std::to_string(count) + (count == 1 ? " rank waits" : " ranks wait") +
                              ", directly or through others, for rank " + std::to_string(i) + ",";
      shown += text.find(row) != std::string::npos && count != 0;
    }
    int with_waiters = 0;
    for (int const count : waiters) with_waiters += count != 0;
    EXPECT_EQ(shown, std::min(with_waiters, 4)) << text;
  }
}

}  // namespace wait_graph_test
}  // namespace quarry::test
