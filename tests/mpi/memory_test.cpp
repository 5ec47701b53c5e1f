// SPDX-License-Identifier: Apache-2.0
// What the runtime allocates of the heap.
#include "mpi/support/full_heap.hpp"
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/progress.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::test {
namespace memory_test {

void ignore_error(MPI_Comm*, int*, ...) {}
void keep_second(void*, void*, int*, MPI_Datatype*) {}

/// Calls each function that allocates, and the function that frees what it got.
void use_everything() {
  int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  int const next = (own + 1) % size, previous = (own + size - 1) % size;
  std::vector<int> data(3000, own), got(3000 * 4);
  MPI_Comm copy = MPI_COMM_NULL, part = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, own % 2, own, &part);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(ignore_error, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Errhandler_free(&handler);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(20, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(keep_second, 1, &op);
  std::array<MPI_Request, 4> requests{};
  MPI_Irecv(got.data(), 3000, MPI_INT, previous, 0, copy, &requests[0]);
  MPI_Irecv(got.data() + 3000, 2, type, previous, 1, copy, &requests[1]);
  MPI_Isend(data.data(), 3000, MPI_INT, next, 0, copy, &requests[2]);
  MPI_Isend(data.data(), 2, type, next, 1, copy, &requests[3]);
  MPI_Request_free(&requests[2]);
  MPI_Type_free(&type);
  MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
  MPI_Barrier(copy);  // the send whose request is freed is complete, so that its buffer may change
  MPI_Sendrecv_replace(data.data(), 3000, MPI_INT, next, 2, previous, 2, copy, MPI_STATUS_IGNORE);
  MPI_Send(data.data(), 3000, MPI_INT, MPI_PROC_NULL, 0, copy);
  MPI_Allgather(data.data(), 3000, MPI_INT, got.data(), 3000, MPI_INT, copy);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, got.data(), 3000, MPI_INT, copy);
  MPI_Allreduce(data.data(), got.data(), 3000, MPI_INT, op, copy);
  MPI_Exscan(data.data(), got.data(), 3000, MPI_INT, MPI_SUM, copy);
  MPI_Send(data.data(), 1, MPI_INT, next, -4, copy);  // an error
  MPI_Op_free(&op);
  MPI_Barrier(copy);
  MPI_Comm_free(&part);
  MPI_Comm_free(&copy);
}

TEST(Memory, CallsThatFreeWhatTheyAllocateLeaveTheHeapAsItWas) {
  QUARRY_TEST_USES_FIBERS();
  constexpr std::uint32_t ranks = 4;
  auto const after = [](int rounds) {
    auto const result = run_on_fibers(ranks, 3, [rounds] {
      for (int i = 0; i < rounds; ++i) use_everything();
    });
    EXPECT_EQ(result.failure, "");
    EXPECT_FALSE(result.is_deadlocked);
    return result.allocations;
  };
  // ranks keep at most 8 small messages for reuse
  EXPECT_LE(after(60), after(20) + 8 * ranks);
}

TEST(Memory, SendsWaitWhileTheHeapIsFull) {
  QUARRY_TEST_USES_FIBERS();
  std::uint64_t const heap_bytes = std::uint64_t{1} << 20;
  auto const result = run_on_fibers(
      3, 1,
      [] {
        constexpr int count = 500, messages = 800;  // twice 1.6 MB
        std::vector<int> data(count, rank_in(MPI_COMM_WORLD));
        if (rank_in(MPI_COMM_WORLD) != 0) {
          for (int i = 0; i < messages; ++i)
            MPI_Send(data.data(), count, MPI_INT, 0, i, MPI_COMM_WORLD);
          return;
        }
        for (int i = 0; i < 2 * messages; ++i) {
          MPI_Status status;
          MPI_Recv(data.data(), count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                   &status);
          EXPECT_EQ(data[count - 1], status.MPI_SOURCE);
        }
      },
      heap_bytes);
  EXPECT_FALSE(result.is_deadlocked);
  EXPECT_EQ(result.status, 0);
}

TEST(Memory, SendsThatNobodyReceivesEndInADeadlock) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      2, 1,
      [] {
        std::array<int, 500> data{};
        for (int i = 0; i < 4000; ++i)
          MPI_Send(data.data(), 500, MPI_INT, 1 - rank_in(MPI_COMM_WORLD), 0, MPI_COMM_WORLD);
      },
      std::uint64_t{1} << 20);
  EXPECT_TRUE(result.is_deadlocked);
}

/// Sends itself two messages while the heap is full, and looks for the second with `look`, which
/// returns an error or MPI_SUCCESS for «not yet».
template <class Look>
void look_behind_an_unwanted_message(Look const& look) {
  auto const result = run_on_fibers(
      1, 1,
      [&] {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int sent[2] = {10, 11}, got = 0, other = 0, flag = 0;
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        {
          full_heap const full;
          for (int tag : {0, 2, 1}) MPI_Send(&sent[tag % 2], 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
          int error = MPI_SUCCESS;
          for (int i = 0; i < 100'000 && error == MPI_SUCCESS; ++i) error = look(request);
          EXPECT_EQ(error, MPI_ERR_NO_MEM);
        }
        for (int tag : {0, 2}) {  // nothing is lost
          EXPECT_EQ(MPI_Iprobe(0, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
          EXPECT_EQ(flag, 1);
        }
        EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        EXPECT_EQ(got, 11);
        for (int tag : {0, 2}) {
          MPI_Recv(&other, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          EXPECT_EQ(other, 10);
        }
      },
      std::uint64_t{1} << 20);
  EXPECT_FALSE(result.is_deadlocked);
  EXPECT_EQ(result.status, 0);
}

TEST(Memory, CallsThatDoNotWaitSayThatTheHeapIsFull) {
  QUARRY_TEST_USES_FIBERS();
  int flag = 0, index = 0, indices[1];
  look_behind_an_unwanted_message(
      [&](MPI_Request&) { return MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); });
  look_behind_an_unwanted_message(
      [&](MPI_Request& request) { return MPI_Test(&request, &flag, MPI_STATUS_IGNORE); });
  look_behind_an_unwanted_message(
      [&](MPI_Request& request) { return MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE); });
  look_behind_an_unwanted_message([&](MPI_Request& request) {
    return MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
  });
  look_behind_an_unwanted_message([&](MPI_Request& request) {
    return MPI_Testsome(1, &request, &index, indices, MPI_STATUSES_IGNORE);
  });
}

TEST(Memory, AHeapThatIsFullForAShortTimeIsNoError) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      1, 1,
      [] {
        int value = 3, flag = 0;
        auto const looks_succeed = [&](int looks) {
          for (int i = 0; i < looks; ++i)
            MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag,
                       MPI_STATUS_IGNORE);  // an error ends the program
        };
        for (int messages = 1; messages < 4; ++messages) {  // more than it keeps memory for
          {
            full_heap const full;
            for (int i = 0; i < messages; ++i) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
            looks_succeed(9000);
          }
          looks_succeed(2000);
          for (int i = 0; i < messages; ++i)
            MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
      },
      std::uint64_t{1} << 20);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

TEST(Memory, AProbeFindsItsMessageWhenAnotherRankFreesMemory) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      2, 1,
      [] {
        int value = 5;
        if (rank_in(MPI_COMM_WORLD) == 1) {
          full_heap const full;
          for (int tag : {0, 1}) MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
          for (int i = 0; i < 1000; ++i) {
            int flag = 0;
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
          }
          return;
        }
        MPI_Status status;
        EXPECT_EQ(MPI_Probe(1, 1, MPI_COMM_WORLD, &status), MPI_SUCCESS);
        EXPECT_EQ(status.MPI_TAG, 1);
      },
      std::uint64_t{1} << 20);
  EXPECT_FALSE(result.is_deadlocked);
  EXPECT_EQ(result.status, 0);
}

}  // namespace memory_test
}  // namespace quarry::test
