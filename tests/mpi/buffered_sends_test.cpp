// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace buffered_sends_test {

constexpr int long_count = 2000;  // 8,000 bytes: more than leave the buffer at once

TEST(BufferedSends, LongMessagesAreInTheBufferUntilTheyAreReceived) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::vector<int> data(long_count);
    if (rank_in(MPI_COMM_WORLD) == 0) {
      std::vector<char> room(2 * (4 * long_count + MPI_BSEND_OVERHEAD));
      auto const bytes = static_cast<int>(room.size());
      auto const send = [&](int count) {
        return MPI_Bsend(data.data(), count, MPI_INT, 1, 0, MPI_COMM_WORLD);
      };
      EXPECT_EQ(MPI_Buffer_attach(room.data(), bytes), MPI_SUCCESS);
      EXPECT_EQ(MPI_Buffer_attach(room.data(), bytes), MPI_ERR_BUFFER);
      data.assign(long_count, 1);
      EXPECT_EQ(send(long_count), MPI_SUCCESS);
      data.assign(long_count, 2);
      EXPECT_EQ(send(long_count), MPI_SUCCESS);
      EXPECT_EQ(send(1), MPI_ERR_BUFFER);
      EXPECT_EQ(send(0), MPI_SUCCESS);
      MPI_Barrier(MPI_COMM_WORLD);  // rank 1 receives the first
      MPI_Barrier(MPI_COMM_WORLD);
      data.assign(long_count, 3);
      EXPECT_EQ(send(long_count), MPI_SUCCESS);
      void* detached = nullptr;
      int size = 0;
      EXPECT_EQ(MPI_Buffer_detach(static_cast<void*>(&detached), &size), MPI_SUCCESS);
      EXPECT_EQ(detached, room.data());
      EXPECT_EQ(size, bytes);
      EXPECT_EQ(send(0), MPI_ERR_BUFFER);
      return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int const value : {1, 2, 0, 3}) {
      std::vector<int> got(long_count, 0);
      MPI_Recv(got.data(), long_count, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(got, std::vector<int>(long_count, value));
      if (value == 1) MPI_Barrier(MPI_COMM_WORLD);
    }
  });
}

TEST(BufferedSends, DetachWaitsForTheReceivers) {
  auto const result = run_failing(1, [] {
    static char room[4 * long_count];
    static int data[long_count];
    void* detached = nullptr;
    int size = 0;
    MPI_Buffer_attach(room, sizeof(room));
    MPI_Bsend(data, long_count, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Request request{};
    MPI_Irecv(data, long_count, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Buffer_detach(static_cast<void*>(&detached), &size);
    EXPECT_EQ(detached, room);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Abort(MPI_COMM_WORLD, 3);
  });
  EXPECT_EQ(result.status, 3);
}

TEST(BufferedSends, TheirMemoryIsFreed) {
  auto const allocations = [](int turns) {
    return run_on_fibers(1, 1,
                         [turns] {
                           std::vector<char> room(std::size_t{4} * long_count);
                           std::vector<int> data(long_count);
                           MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
                           for (int i = 0; i < turns; ++i) {
                             MPI_Request request{};
                             MPI_Ibsend(data.data(), long_count, MPI_INT, 0, 0, MPI_COMM_WORLD,
                                        &request);
                             MPI_Wait(&request, MPI_STATUS_IGNORE);
                             MPI_Recv(data.data(), long_count, MPI_INT, 0, 0, MPI_COMM_WORLD,
                                      MPI_STATUS_IGNORE);
                           }
                           void* detached = nullptr;
                           int size = 0;
                           MPI_Buffer_detach(static_cast<void*>(&detached), &size);
                         })
        .allocations;
  };
  EXPECT_EQ(allocations(1), allocations(20));
}

}  // namespace buffered_sends_test
}  // namespace quarry::test
