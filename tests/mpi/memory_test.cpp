// SPDX-License-Identifier: Apache-2.0
// What the runtime allocates of the heap.
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

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

}  // namespace memory_test
}  // namespace quarry::test
