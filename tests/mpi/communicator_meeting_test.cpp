// SPDX-License-Identifier: Apache-2.0
// Collective operations of communicators other than the world, whose members meet at a counter of
// their own (mpi/communicator_meeting.hpp) and read each other's memory.
#include "mpi/support/communicators.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/communicator_meeting.hpp"
#include "mpi/communicator_objects.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace quarry::test {
namespace communicator_meeting_test {

using namespace communicators;

double operand(int rank, int i) { return 1.0 / (1 + (rank * 7 + i * 3) % 97); }

/// The sum by a binary tree over the ranks.
double sum_of(int size, int i) {
  std::vector<double> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(operand(rank, i));
  for (int reach = 1; reach < size; reach *= 2)
    for (int k = 0; k + reach < size; k += 2 * reach) values[index(k)] += values[index(k + reach)];
  return values[0];
}

TEST(CommunicatorMeeting, ABarrierOrdersWhatMembersWrite) {
  for (std::uint32_t const ranks : {2u, 5u, 8u}) {
    std::vector<int> written(ranks), in_pair(ranks);
    run_everywhere(ranks, [&] {
      int const own = rank_in(MPI_COMM_WORLD);
      MPI_Comm copy, pair = part_of(MPI_COMM_WORLD, own / 2, -own);
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      for (int round = 1; round <= 20; ++round) {
        written[index(own)] = round;
        MPI_Barrier(copy);
        for (int const value : written) EXPECT_EQ(value, round);
        in_pair[index(own)] = -round;
        MPI_Barrier(pair);
        std::size_t const other = index(own ^ 1);
        if (other < ranks) {
          EXPECT_EQ(in_pair[other], -round);
        }
        MPI_Barrier(copy);
      }
      MPI_Comm_free(&copy);
      MPI_Comm_free(&pair);
    });
  }
}

/// All lanes that continue together must find the same lanes.
TEST(CommunicatorMeeting, NeighboursInWorldAndCommunicatorContinueTogether) {
  run_worlds([] {
    many_communicators all;
    all.for_each([](MPI_Comm each) {
      mpi::rank_state& rank = mpi::self();
      auto const& shared = *mpi::member(rank, each)->shared;
      if (shared.meeting == nullptr) return;
      for (std::uint32_t own = 0; own < shared.size; ++own) {
        std::uint32_t const world = shared.world_rank(own, rank.rank);
        std::uint32_t const lanes = mpi::lanes_beside(shared, own, world);
        EXPECT_EQ(lanes >> world % 32 & 1, 1u);
        for (std::uint32_t other = 0; other < shared.size; ++other) {
          std::uint32_t const place = shared.world_rank(other, rank.rank);
          if (place / 32 != world / 32) continue;
          bool const is_beside = (lanes >> place % 32 & 1) != 0;
          EXPECT_EQ(is_beside, mpi::lanes_beside(shared, other, place) == lanes);
          if (other == own + 1) {
            EXPECT_EQ(is_beside, place == world + 1);
          }
        }
        if (own == static_cast<std::uint32_t>(rank_in(each))) {
          EXPECT_EQ(shared.meeting->places()[own].lanes, lanes);
        }
      }
    });
  });
}

TEST(CommunicatorMeeting, BroadcastsReachAllMembers) {
  run_worlds([] {
    many_communicators all;
    for (int round = 0; round < 3; ++round)
      all.for_each([&](MPI_Comm each) {
        int const own = rank_in(each), size = size_of(each);
        for (int const count : {1, 16, 17, 300}) {
          int const root = (round * 7 + count) % size;
          std::vector<int> data(index(count), own == root ? root * 3 + count : -1);
          EXPECT_EQ(MPI_Bcast(data.data(), count, MPI_INT, root, each), MPI_SUCCESS);
          EXPECT_EQ(data, std::vector<int>(index(count), root * 3 + count));
        }
      });
  });
}

/// Numbers at the limits of the ways: one of `reduce_few`, its most, more, and long ones.
TEST(CommunicatorMeeting, ReductionsHaveTheBitsOfABinaryTree) {
  run_worlds([] {
    many_communicators all;
    all.for_each([&](MPI_Comm each) {
      int const own = rank_in(each), size = size_of(each);
      for (int const count : {0, 1, 2, 3, 4, 9, 150}) {
        std::vector<double> sent(index(count)), result(index(count), -1), expected(index(count));
        for (int i = 0; i < count; ++i) {
          sent[index(i)] = operand(own, i);
          expected[index(i)] = sum_of(size, i);
        }
        MPI_Allreduce(sent.data(), result.data(), count, MPI_DOUBLE, MPI_SUM, each);
        EXPECT_EQ(result, expected);
        int const root = count % size;
        bool const is_root = own == root;
        std::vector<double> reduced = is_root ? sent : std::vector<double>(index(count), -1);
        MPI_Reduce(is_root ? MPI_IN_PLACE : sent.data(), reduced.data(), count, MPI_DOUBLE, MPI_SUM,
                   root, each);
        EXPECT_EQ(reduced, is_root ? expected : std::vector<double>(index(count), -1));
      }
      int most = own;
      MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, each);
      EXPECT_EQ(most, size - 1);
    });
  });
}

TEST(CommunicatorMeeting, AReductionOfManyMembersHasThreeLevels) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(1061, 5, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int const count : {1, 5}) {
      double sent[5], received[5];
      for (int i = 0; i < count; ++i) sent[i] = operand(rank_in(copy), i);
      MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, copy);
      for (int i = 0; i < count && rank_in(copy) % 100 == 0; ++i)
        EXPECT_EQ(received[i], sum_of(1061, i));
    }
    MPI_Comm_free(&copy);
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

int element(int from, int to, int i) { return from * 1000 + to * 10 + i; }
TEST(CommunicatorMeeting, EveryMemberGetsItsParts) {
  run_worlds([] {
    many_communicators all;
    all.for_each([&](MPI_Comm each) {
      int const own = rank_in(each), size = size_of(each);
      for (int const count : {1, 3, 40}) {
        std::vector<int> own_part(index(count)), parts(index(count * size), -1), sent, expected;
        for (int i = 0; i < count; ++i) own_part[index(i)] = element(own, 0, i);
        for (int from = 0; from < size; ++from)
          for (int i = 0; i < count; ++i) expected.push_back(element(from, 0, i));
        MPI_Allgather(own_part.data(), count, MPI_INT, parts.data(), count, MPI_INT, each);
        EXPECT_EQ(parts, expected);
        parts.assign(parts.size(), -1);
        int const root = count % size;
        MPI_Gather(own_part.data(), count, MPI_INT, parts.data(), count, MPI_INT, root, each);
        EXPECT_EQ(parts, own == root ? expected : std::vector<int>(parts.size(), -1));
        own_part.assign(own_part.size(), -1);
        MPI_Scatter(expected.data(), count, MPI_INT, own_part.data(), count, MPI_INT, root, each);
        EXPECT_EQ(own_part.back(), element(own, 0, count - 1));
        expected.clear();
        for (int peer = 0; peer < size; ++peer)
          for (int i = 0; i < count; ++i) {
            sent.push_back(element(own, peer, i));
            expected.push_back(element(peer, own, i));
          }
        MPI_Alltoall(sent.data(), count, MPI_INT, parts.data(), count, MPI_INT, each);
        EXPECT_EQ(parts, expected);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, sent.data(), count, MPI_INT, each);
        EXPECT_EQ(sent, expected);
      }
    });
  });
}

/// Each rank is in two of the communicators, and ranks use them in different orders and at
/// different times.
TEST(CommunicatorMeeting, CommunicatorsThatOverlapDoNotDisturbEachOther) {
  run_everywhere(8, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm const pair = part_of(MPI_COMM_WORLD, own / 2, own);
    MPI_Comm const shifted = part_of(MPI_COMM_WORLD, (own + 1) % 8 / 2, -own);
    auto const use = [&](MPI_Comm among, int round) {
      int sum = 0, data[40];
      MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, among);
      EXPECT_EQ(sum, among == pair          ? own / 2 * 4 + 1
                     : own == 0 || own == 7 ? 7
                                            : (own + 1) / 2 * 4 - 1);
      for (int& value : data) value = rank_in(among) == round % 2 ? round : -1;
      MPI_Bcast(data, round % 3 == 0 ? 40 : 2, MPI_INT, round % 2, among);
      EXPECT_EQ(data[1], round);
      if (round % 4 == 0) MPI_Barrier(among);
    };
    for (int round = 0; round < 6; ++round) {
      // Ranks 2 and 3 begin with their pair, all others with the other communicator: no circle.
      bool const begins_with_pair = own == 2 || own == 3;
      use(begins_with_pair ? pair : shifted, round);
      use(begins_with_pair ? shifted : pair, round);
    }
    MPI_Comm of_two = pair, of_others = shifted;
    MPI_Comm_free(&of_two);
    MPI_Comm_free(&of_others);
  });
}

TEST(CommunicatorMeeting, ManyCommunicatorsOfEachRankAreFreed) {
  QUARRY_TEST_USES_FIBERS();
  constexpr int many = 100;
  auto const run = [](int kept) {
    return run_on_fibers(12, 3, [kept] {
      int const own = rank_in(MPI_COMM_WORLD);
      std::vector<MPI_Comm> made;
      for (int i = 0; i < many; ++i) {
        made.push_back(part_of(MPI_COMM_WORLD, own / (1 + i % 5), i % 2 == 0 ? own : -own));
        MPI_Barrier(made.back());
      }
      for (int i = 0; i < many; ++i) {
        int const one = 1;
        int sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[index(i)]);
        EXPECT_EQ(sum, size_of(made[index(i)]));
        if (i >= kept) MPI_Comm_free(&made[index(i)]);
      }
    });
  };
  auto const all_freed = run(0), some_kept = run(5);
  EXPECT_EQ(all_freed.failure, "");
  // Of the 5 communicators of each rank there are 12, 6, 4, 3 and 3.
  EXPECT_EQ(some_kept.allocations - all_freed.allocations, 28u);
}

TEST(CommunicatorMeeting, MembersInDifferentOperationsAreDeadlocked) {
  QUARRY_TEST_USES_FIBERS();
  std::vector<std::function<void(MPI_Comm)>> const operations{
      [](MPI_Comm among) { MPI_Barrier(among); },
      [](MPI_Comm among) {
        int value = 0;
        MPI_Bcast(&value, 1, MPI_INT, 0, among);
      },
      [](MPI_Comm among) {
        int const value = 1;
        int sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, among);
      },
      [](MPI_Comm among) {
        int const value = 1;
        int values[7];
        MPI_Allgather(&value, 1, MPI_INT, values, 1, MPI_INT, among);
      }};
  for (std::size_t first = 0; first < operations.size(); ++first)
    for (std::size_t second = first + 1; second < operations.size(); ++second) {
      auto const result = run_on_fibers(7, 1, [&] {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Barrier(copy);
        operations[rank_in(copy) == 4 ? first : second](copy);
      });
      EXPECT_TRUE(result.is_deadlocked) << first << ", " << second;
    }
  auto const absent = run_on_fibers(5, 1, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank_in(copy) != 3) MPI_Barrier(copy);
  });
  EXPECT_TRUE(absent.is_deadlocked);
}

TEST(CommunicatorMeeting, AMemberThatWaitsServesSends) {
  run_everywhere(6, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    std::vector<double> data(2000, 1.5), received(2000);
    MPI_Request request;
    if (rank_in(copy) == 4) MPI_Irecv(received.data(), 2000, MPI_DOUBLE, 0, 0, copy, &request);
    if (rank_in(copy) == 0) MPI_Ssend(data.data(), 2000, MPI_DOUBLE, 4, 0, copy);
    MPI_Barrier(copy);
    if (rank_in(copy) == 4) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(received, data);
    }
    MPI_Comm_free(&copy);
  });
}

}  // namespace communicator_meeting_test
}  // namespace quarry::test
