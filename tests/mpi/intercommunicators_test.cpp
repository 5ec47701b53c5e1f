// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/full_heap.hpp"
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace intercommunicators_test {

/// Two groups, the first of `first` ranks; the second's leader is its last rank.
struct two_groups {
  explicit two_groups(int first) {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    is_first = own < first;
    MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &local);
    MPI_Intercomm_create(local, is_first ? 0 : size - first - 1, MPI_COMM_WORLD,
                         is_first ? size - 1 : 0, 7, &both);
    remote_size = is_first ? size - first : first;
  }
  ~two_groups() {
    MPI_Comm_free(&both);
    MPI_Comm_free(&local);
  }
  two_groups(two_groups const&) = delete;

  bool is_first;
  int remote_size;
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm both = MPI_COMM_NULL;
};

void each_sends_to_each(MPI_Comm between, int remote_size) {
  int const own = rank_in(between);
  std::vector<int> sent(static_cast<std::size_t>(remote_size)), got(sent.size(), -1);
  std::vector<MPI_Request> requests(2 * sent.size());
  for (int i = 0; i < remote_size; ++i) {
    auto const at = static_cast<std::size_t>(i);
    sent[at] = own * 100 + i;
    MPI_Irecv(&got[at], 1, MPI_INT, i, 3, between, &requests[2 * at]);
    MPI_Isend(&sent[at], 1, MPI_INT, i, 3, between, &requests[2 * at + 1]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < remote_size; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i * 100 + own);
}

TEST(Intercommunicators, SendToTheOtherGroup) {
  for (int const size : {2, 3, 7})
    run_everywhere(static_cast<std::uint32_t>(size), [] {
      two_groups const groups{1};
      int flag = 0, remote = 0;
      MPI_Comm_test_inter(groups.both, &flag);
      EXPECT_EQ(flag, 1);
      MPI_Comm_remote_size(groups.both, &remote);
      EXPECT_EQ(remote, groups.remote_size);
      EXPECT_EQ(size_of(groups.both), size_of(groups.local));
      EXPECT_EQ(rank_in(groups.both), rank_in(groups.local));
      each_sends_to_each(groups.both, remote);
    });
}

TEST(Intercommunicators, CopiesAndPartsSendToTheOtherGroup) {
  run_everywhere(8, [] {
    two_groups const groups{3};
    MPI_Comm copy, part;
    MPI_Comm_dup(groups.both, &copy);
    each_sends_to_each(copy, groups.remote_size);
    int result = -1;
    MPI_Comm_compare(groups.both, copy, &result);
    EXPECT_EQ(result, MPI_CONGRUENT);
    // colors 0 and 1 are in both groups, color 2 in the second alone
    int const own = rank_in(groups.both);
    MPI_Comm_split(groups.both, own % (groups.is_first ? 2 : 3), -own, &part);
    if (!groups.is_first && own % 3 == 2) {
      EXPECT_EQ(part, MPI_COMM_NULL);
    } else {
      // first: 0, 2 and 1; second: 0, 3 and 1, 4
      int const remote = groups.is_first ? 2 : own % 3 == 0 ? 2 : 1;
      int got = -1;
      MPI_Comm_remote_size(part, &got);
      EXPECT_EQ(got, remote);
      each_sends_to_each(part, remote);
      MPI_Comm_free(&part);
    }
    MPI_Comm_free(&copy);
  });
}

TEST(Intercommunicators, CopiesAtOnceNeedNoOtherRank) {
  for (int const last : {0, 4})  // a rank of each group: it begins when the others have all copies
    run_everywhere(5, [last] {
      two_groups const groups{2};
      int const own = rank_in(MPI_COMM_WORLD);
      std::vector<MPI_Comm> copies(60, MPI_COMM_NULL);
      int ready = 0;
      if (own == last)
        for (int i = 1; i < 5; ++i)
          MPI_Recv(&ready, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (MPI_Comm& copy : copies) {
        MPI_Request request;
        MPI_Comm_idup(groups.both, &copy, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      if (own != last) MPI_Send(&own, 1, MPI_INT, last, 8, MPI_COMM_WORLD);
      for (MPI_Comm& copy : copies) {
        each_sends_to_each(copy, groups.remote_size);
        int sum = 0;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, copy);
        EXPECT_EQ(sum, groups.is_first ? 9 : 1);
        MPI_Comm_free(&copy);
      }
    });
}

TEST(Intercommunicators, CopiesAtOnceOutliveWhatTheOtherGroupHasFreed) {
  run_everywhere(6, [] {
    int const own = rank_in(MPI_COMM_WORLD), token = 1;
    MPI_Comm copy, second;
    MPI_Request request;
    int const remote = [&] {
      two_groups const groups{3};
      int got = 0;
      if (!groups.is_first)
        MPI_Recv(&got, 1, MPI_INT, own - 3, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Comm_idup(groups.both, &copy, &request);
      return groups.remote_size;
    }();  // frees the communicator
    if (own < 3) MPI_Send(&token, 1, MPI_INT, own + 3, 8, MPI_COMM_WORLD);
    for (int i = 0; i < 200; ++i) {  // more often than the ring has places
      MPI_Comm_idup(copy, &second, &request);
      MPI_Comm_free(&copy);
      copy = second;
    }
    each_sends_to_each(copy, remote);
    int result = -1;
    MPI_Comm_compare(copy, copy, &result);
    EXPECT_EQ(result, MPI_IDENT);
    MPI_Comm_free(&copy);
  });
}

TEST(Intercommunicators, WithoutMemoryNothingIsLost) {
  QUARRY_TEST_USES_FIBERS();
  auto const leftover = [](int attempts) {
    auto const result = run_on_fibers(
        2, 1,
        [=] {
          two_groups const groups{1};
          MPI_Comm_set_errhandler(groups.both, MPI_ERRORS_RETURN);
          MPI_Comm copy = MPI_COMM_NULL, other;
          MPI_Request request;
          MPI_Comm_idup(groups.both, &other, &request);  // makes the ring
          {
            full_heap const full;
            for (int i = 0; i < attempts; ++i) {
              MPI_Barrier(MPI_COMM_WORLD);  // both ranks have filled the heap
              EXPECT_EQ(MPI_Comm_idup(groups.both, &copy, &request), MPI_ERR_NO_MEM);
              EXPECT_EQ(MPI_Comm_dup(groups.both, &copy), MPI_ERR_NO_MEM);
              EXPECT_EQ(copy, MPI_COMM_NULL);
            }
            MPI_Barrier(MPI_COMM_WORLD);
          }
          MPI_Comm_free(&other);
        },
        std::uint64_t{1} << 20);
    EXPECT_EQ(result.failure, "");
    return result.allocations;
  };
  EXPECT_EQ(leftover(3), leftover(1));
}

TEST(Intercommunicators, MergeInTheOrderThatTheGroupsWish) {
  run_everywhere(5, [] {
    two_groups const groups{2};
    int const own = rank_in(MPI_COMM_WORLD);
    for (int const high : {0, 1, 2}) {  // 2: both give the same
      MPI_Comm merged;
      MPI_Intercomm_merge(groups.both, high == 2 ? 1 : groups.is_first ? high : 1 - high, &merged);
      std::vector<int> got(5, -1);
      MPI_Allgather(&own, 1, MPI_INT, got.data(), 1, MPI_INT, merged);
      EXPECT_EQ(got,
                high == 1 ? (std::vector<int>{2, 3, 4, 0, 1}) : (std::vector<int>{0, 1, 2, 3, 4}));
      MPI_Comm_free(&merged);
    }
  });
}

TEST(Intercommunicators, OfGroupsWithACommonRankAreRefused) {
  run_everywhere(4, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm made = MPI_COMM_NULL;
    // both leaders have the whole world as their group
    int const leader = rank_in(MPI_COMM_WORLD) < 2 ? 0 : 2;
    MPI_Comm copy, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, leader, 0, &half);
    EXPECT_EQ(MPI_Intercomm_create(copy, 0, MPI_COMM_WORLD, 0, 1, &made), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Intercomm_create(half, 0, MPI_COMM_NULL, 0, 1, &made), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Intercomm_create(half, 5, MPI_COMM_WORLD, 0, 1, &made), MPI_ERR_RANK);
    int size = 0;
    EXPECT_EQ(MPI_Comm_remote_size(copy, &size), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Intercomm_merge(copy, 0, &made), MPI_ERR_COMM);
    EXPECT_EQ(made, MPI_COMM_NULL);
    // the communicators work
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    EXPECT_EQ(sum, 4);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
  });
}

}  // namespace intercommunicators_test
}  // namespace quarry::test
