// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/full_heap.hpp"
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace quarry::test {
namespace communicators_test {

TEST(Communicators, SplitOrdersTheMembersOfAColorByKeyThenByOldRank) {
  run_in_worlds([] {
    shared_random random{21};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 5; ++round) {
      std::vector<int> colors, keys;
      for (int rank = 0; rank < size; ++rank) {
        colors.push_back(random.below(4) == 0 ? MPI_UNDEFINED : random.below(3));
        keys.push_back(random.below(4) - 2);
      }
      auto const index = static_cast<std::size_t>(own);
      MPI_Comm part = MPI_COMM_WORLD;
      MPI_Comm_split(MPI_COMM_WORLD, colors[index], keys[index], &part);
      if (colors[index] == MPI_UNDEFINED) {
        EXPECT_EQ(part, MPI_COMM_NULL);
        continue;
      }
      std::vector<std::pair<int, int>> members;
      for (int rank = 0; rank < size; ++rank)
        if (colors[static_cast<std::size_t>(rank)] == colors[index])
          members.emplace_back(keys[static_cast<std::size_t>(rank)], rank);
      std::sort(members.begin(), members.end());
      std::vector<int> expected, got(members.size(), -1);
      for (auto const& member : members) expected.push_back(member.second);
      EXPECT_EQ(size_of(part), static_cast<int>(members.size()));
      MPI_Allgather(&own, 1, MPI_INT, got.data(), 1, MPI_INT, part);
      EXPECT_EQ(got, expected);
      EXPECT_EQ(expected[static_cast<std::size_t>(rank_in(part))], own);
      MPI_Comm_free(&part);
      EXPECT_EQ(part, MPI_COMM_NULL);
    }
  });
}

TEST(Communicators, PartsOfPartsTranslateTheirRanks) {
  run_everywhere(8, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm half = MPI_COMM_NULL, quarter = MPI_COMM_NULL, copy = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, own % 2, -own, &half);  // in descending order
    MPI_Comm_split(half, rank_in(half) / 2, 0, &quarter);
    MPI_Comm_dup(quarter, &copy);
    int const peer = 1 - rank_in(copy);
    int received = -1;
    MPI_Sendrecv(&own, 1, MPI_INT, peer, 0, &received, 1, MPI_INT, peer, 0, copy,
                 MPI_STATUS_IGNORE);
    EXPECT_EQ(received, own ^ 2);
    for (MPI_Comm* communicator : {&half, &quarter, &copy}) MPI_Comm_free(communicator);
  });
}

TEST(Communicators, FreedHandlesAreUsedAgain) {
  run_everywhere(3, [] {
    MPI_Comm first = MPI_COMM_NULL;
    for (int i = 0; i < 20; ++i) {
      MPI_Comm copies[6];
      for (MPI_Comm& copy : copies) MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      if (i == 0) first = copies[0];
      EXPECT_EQ(copies[0], first);
      for (MPI_Comm& copy : copies) {
        int sum = 0, one = 1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
        EXPECT_EQ(sum, 3);
        MPI_Comm_free(&copy);
      }
    }
  });
}

TEST(Communicators, CopiesAtOnceNeedNoOtherRank) {
  run_everywhere(5, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    std::vector<MPI_Comm> copies(60, MPI_COMM_NULL);
    MPI_Request request;
    // rank 0 begins when the others have all their copies
    int ready = 0;
    if (own == 0)
      for (int i = 1; i < 5; ++i)
        MPI_Recv(&ready, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (MPI_Comm& copy : copies) {
      MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (own != 0) MPI_Send(&own, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    for (MPI_Comm& copy : copies) {
      int sum = 0;
      MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, copy);
      EXPECT_EQ(sum, 10);
      MPI_Comm_free(&copy);
    }
    for (int i = 0; i < 200; ++i) {  // more often than the ring has places
      MPI_Comm_idup(MPI_COMM_WORLD, &copies[0], &request);
      int sum = 0;
      MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, copies[0]);
      EXPECT_EQ(sum, 10);
      MPI_Comm_free(&copies[0]);
    }
  });
}

TEST(Communicators, CompareTellsIdenticalCongruentSimilarAndUnequal) {
  run_everywhere(4, [] {
    MPI_Comm copy, reversed, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_in(MPI_COMM_WORLD), &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, rank_in(MPI_COMM_WORLD) % 2, 0, &half);
    auto const compare = [](MPI_Comm left, MPI_Comm right) {
      int result = -1;
      MPI_Comm_compare(left, right, &result);
      return result;
    };
    EXPECT_EQ(compare(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT);
    EXPECT_EQ(compare(MPI_COMM_WORLD, copy), MPI_CONGRUENT);
    EXPECT_EQ(compare(copy, reversed), MPI_SIMILAR);
    EXPECT_EQ(compare(copy, half), MPI_UNEQUAL);
    EXPECT_EQ(compare(MPI_COMM_SELF, half), MPI_UNEQUAL);
  });
}

TEST(Communicators, SelfHasOneRank) {
  run_everywhere(3, [] {
    EXPECT_EQ(size_of(MPI_COMM_SELF), 1);
    EXPECT_EQ(rank_in(MPI_COMM_SELF), 0);
    int sent = rank_in(MPI_COMM_WORLD), received = -1;
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    for (MPI_Comm communicator : {MPI_COMM_SELF, copy}) {
      MPI_Allreduce(&sent, &received, 1, MPI_INT, MPI_SUM, communicator);
      EXPECT_EQ(received, sent);
      MPI_Sendrecv(&sent, 1, MPI_INT, 0, 0, &received, 1, MPI_INT, 0, 0, communicator,
                   MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&copy);
  });
}

TEST(Communicators, UnknownCommunicatorsAreRefused) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int value = 0;
    MPI_Comm world = MPI_COMM_WORLD, made = MPI_COMM_NULL;
    EXPECT_EQ(MPI_Comm_size(MPI_COMM_NULL, &value), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Barrier(99), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Comm_free(&world), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &made), MPI_ERR_ARG);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm const old = made;
    MPI_Comm_free(&made);
    EXPECT_EQ(MPI_Send(&value, 1, MPI_INT, 0, 0, old), MPI_ERR_COMM);
  });
}

TEST(Communicators, ACopyThatWaitsAdvancesOtherOperations) {
  run_everywhere(4, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    int data = own == 0 ? 7 : 0, token = 0;
    MPI_Request broadcast;
    if (own == 0) MPI_Recv(&token, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, &broadcast);  // rank 2 sends it to rank 3
    if (own == 2) MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (own != 2) MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
    std::vector<MPI_Comm> copies(70);  // rank 2 waits for the others
    for (MPI_Comm& copy : copies) {
      MPI_Request request;
      MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (own == 2) MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
    EXPECT_EQ(data, 7);
    for (MPI_Comm& copy : copies) MPI_Comm_free(&copy);
  });
}

TEST(Communicators, WithoutMemoryForAHandleNothingIsLost) {
  QUARRY_TEST_USES_FIBERS();
  using call = int (*)(MPI_Comm*);
  auto const dup = [](MPI_Comm* made) { return MPI_Comm_dup(MPI_COMM_SELF, made); };
  auto const idup = [](MPI_Comm* made) {
    MPI_Request request;
    return MPI_Comm_idup(MPI_COMM_SELF, made, &request);
  };
  auto const leftover = [](call make, int attempts) {
    auto const result = run_on_fibers(
        1, 1,
        [=] {
          MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
          MPI_Comm made = MPI_COMM_NULL, others[2];
          for (int i = 0; i < 2;
               ++i) {  // one more is made and freed, for what the first call needs
            EXPECT_EQ(make(&made), MPI_SUCCESS);
            MPI_Comm_free(&made);
            EXPECT_EQ(make(&others[i]), MPI_SUCCESS);
          }
          void* const room = mpi::allocate(sizeof(mpi::communicator));  // and none for the table
          {
            full_heap const full;
            mpi::release(room);
            for (int i = 0; i < attempts; ++i) EXPECT_EQ(make(&made), MPI_ERR_NO_MEM);
            EXPECT_EQ(made, MPI_COMM_NULL);
          }
          for (MPI_Comm& other : others) MPI_Comm_free(&other);
        },
        std::uint64_t{1} << 20);
    EXPECT_EQ(result.failure, "");
    return result.allocations;
  };
  for (call const make : {call{dup}, call{idup}}) EXPECT_EQ(leftover(make, 3), leftover(make, 0));
}

}  // namespace communicators_test
}  // namespace quarry::test
