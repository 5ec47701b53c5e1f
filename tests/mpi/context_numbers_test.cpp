// SPDX-License-Identifier: Apache-2.0
#include "mpi/context_numbers.hpp"

#include "mpi/progress.hpp"
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace quarry::test {
namespace context_numbers_test {

/// Lets all ranks together make so many communicators that have never been.
void leave_new(std::uint32_t communicators) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 0)
    simt::atomic_ref<std::uint32_t>{mpi::the_world().next_context}.store(
        mpi::end_of_contexts - 2 * communicators, simt::relaxed);
  MPI_Barrier(MPI_COMM_WORLD);
}

std::uint32_t context_of(MPI_Comm communicator) {
  return mpi::member(mpi::self(), communicator)->context;
}

/// The rank's neighbour in the communicator has the number that it should have.
void expect_messages(MPI_Comm communicator) {
  int own = 0, size = 0, received = -1;
  MPI_Comm_rank(communicator, &own);
  MPI_Comm_size(communicator, &size);
  MPI_Sendrecv(&own, 1, MPI_INT, (own + 1) % size, 0, &received, 1, MPI_INT,
               (own + size - 1) % size, 0, communicator, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, (own + size - 1) % size);
}

TEST(ContextNumbers, ThoseOfFreedCommunicatorsAreUsedAgainWhenAllHaveBeenUsed) {
  run_everywhere(6, [] {
    leave_new(1 + 3 + 6 + 2 * 3);
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm kept;
    MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    for (int round = 0; round < 40; ++round) {
      MPI_Comm third, alone, half, both;
      MPI_Comm_split(MPI_COMM_WORLD, own % 3, 0, &third);
      MPI_Comm_dup(MPI_COMM_SELF, &alone);
      MPI_Comm_split(kept, own % 2, 0, &half);
      MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - own % 2, 1, &both);
      std::set<std::uint32_t> numbers;
      for (MPI_Comm const each : {MPI_COMM_WORLD, kept, third, alone, half, both}) {
        numbers.insert(context_of(each));
        expect_messages(each);
      }
      EXPECT_EQ(numbers.size(), 6u);
      EXPECT_LT(*numbers.rbegin(), mpi::end_of_contexts);
      // no two ranks have a copy with the same number, and all have the same number of `kept`
      std::vector<std::uint32_t> all(6);
      std::uint32_t const mine = context_of(alone);
      MPI_Allgather(&mine, 1, MPI_UINT32_T, all.data(), 1, MPI_UINT32_T, kept);
      EXPECT_EQ((std::set<std::uint32_t>{all.begin(), all.end()}.size()), 6u);
      for (MPI_Comm* const each : {&both, &half, &alone, &third}) MPI_Comm_free(each);
      MPI_Barrier(MPI_COMM_WORLD);  // all are free
    }
    expect_messages(kept);
    MPI_Comm_free(&kept);
  });
}

TEST(ContextNumbers, WithoutANumberACommunicatorIsRefusedUntilOneIsFree) {
  run_everywhere(4, [] {
    leave_new(9);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    std::vector<MPI_Comm> made;
    MPI_Comm next;
    while (MPI_Comm_dup(MPI_COMM_SELF, &next) == MPI_SUCCESS) made.push_back(next);
    int const own = static_cast<int>(made.size());
    int all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(all, 9);
    EXPECT_NE(MPI_Comm_dup(MPI_COMM_SELF, &next), MPI_SUCCESS);
    for (int turn = 0; turn < 4; ++turn) {  // one rank after another, so that no search misses one
      MPI_Barrier(MPI_COMM_WORLD);
      if (turn != rank_in(MPI_COMM_WORLD)) continue;
      for (int round = 0; round < 3 && !made.empty(); ++round) {
        MPI_Comm_free(&made.back());
        EXPECT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &made.back()), MPI_SUCCESS);
        expect_messages(made.back());
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (MPI_Comm& each : made) MPI_Comm_free(&each);
  });
}

/// With relaxed orders in `freed_contexts`, ThreadSanitizer reports the accesses to `owners`.
TEST(ContextNumbers, ARankThatTakesOneSeesWhatItsLastOwnerDid) {
  std::vector<int> owners(5);
  run_everywhere(6, [&owners] {
    leave_new(4);
    int const own = 1 + rank_in(MPI_COMM_WORLD);
    int turns = 0, all = 0;
    for (int round = 0; round < 200; ++round) {
      std::uint32_t const context = mpi::new_contexts();
      int found;
      if (context != 0) {
        int& owner = owners[(mpi::end_of_contexts - context) / 2];
        EXPECT_EQ(std::exchange(owner, own), 0);
        MPI_Iprobe(0, 0, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);  // other ranks run
        EXPECT_EQ(std::exchange(owner, 0), own);
        mpi::free_contexts(context);
        ++turns;
      }
      MPI_Iprobe(0, 0, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&turns, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_GT(all, 4);
  });
}

/// Begins something in a copy of MPI_COMM_SELF, frees that, and makes another copy, which must have
/// another number.
template <class Begin, class End>
void expect_kept(Begin const& begin, End const& end) {
  run_everywhere(1, [&] {
    leave_new(1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm first, second;
    EXPECT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &first), MPI_SUCCESS);
    auto open = begin(first);
    MPI_Comm_free(&first);
    EXPECT_NE(MPI_Comm_dup(MPI_COMM_SELF, &second), MPI_SUCCESS);
    end(open);
  });
}

TEST(ContextNumbers, OneOfACommunicatorThatMayStillReceiveIsNotUsedAgain) {
  static int value = 0;
  auto const no_end = [](MPI_Request) {};
  auto const cancel = [](MPI_Request request) {
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  };
  auto const free = [](MPI_Request request) { MPI_Request_free(&request); };
  expect_kept(
      [](MPI_Comm in) {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, 0, 0, in, &request);
        return request;
      },
      cancel);
  expect_kept(
      [](MPI_Comm in) {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, 0, 0, in, &request);
        MPI_Request_free(&request);
        return request;
      },
      no_end);
  expect_kept(
      [](MPI_Comm in) {
        MPI_Request request;
        MPI_Recv_init(&value, 1, MPI_INT, 0, 0, in, &request);
        return request;
      },
      free);
  expect_kept(
      [](MPI_Comm in) {
        MPI_Request request;
        MPI_Bcast_init(&value, 1, MPI_INT, 0, in, MPI_INFO_NULL, &request);
        return request;
      },
      free);
}

TEST(ContextNumbers, FreedContextsAreTakenOnce) {
  run_everywhere(1, [] {
    mpi::freed_contexts freed{};
    std::set<std::uint32_t> put;
    for (std::uint32_t const context : {4u, 6u, 130u, 32766u, 32768u, mpi::end_of_contexts - 2})
      put.insert(context), freed.put(context);
    freed.put(130);  // again
    std::set<std::uint32_t> taken;
    for (std::size_t i = 0; i < put.size(); ++i) taken.insert(freed.take());
    EXPECT_EQ(taken, put);
    EXPECT_EQ(freed.take(), 0u);
    freed.put(6);
    EXPECT_EQ(freed.take(), 6u);
  });
}

}  // namespace context_numbers_test
}  // namespace quarry::test
