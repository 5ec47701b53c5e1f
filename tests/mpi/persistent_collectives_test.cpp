// SPDX-License-Identifier: Apache-2.0
// Collective operations that are started again and again, also in another order in each rank.
#include "mpi/support/ranks.hpp"

#include "mpi/errors.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace persistent_collectives_test {

using values = std::vector<int>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

TEST(PersistentCollectives, EachStartUsesTheDataOfItsTime) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    shared_random draw{static_cast<std::uint64_t>(own) + 5};
    values input(1500), sums(1500), parts(at(size)), exchanged(at(size)), scanned(1);
    MPI_Request requests[4];
    MPI_Allreduce_init(input.data(), sums.data(), 1500, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &requests[0]);
    MPI_Alltoall_init(parts.data(), 1, MPI_INT, exchanged.data(), 1, MPI_INT, MPI_COMM_WORLD,
                      MPI_INFO_NULL, &requests[1]);
    MPI_Scan_init(&input[0], scanned.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                  &requests[2]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
    for (int round = 0; round < 4; ++round) {
      input.assign(1500, own + round);
      for (int i = 0; i < size; ++i) parts[at(i)] = own * 100 + i + round;
      int const first = draw.below(4);
      if (first == 0) {
        MPI_Startall(4, requests);
      } else {
        for (int i = 0; i < 4; ++i) MPI_Start(&requests[(first + i) % 4]);
      }
      for (int i = 0; i < 3; ++i) MPI_Wait(&requests[draw.below(4)], MPI_STATUS_IGNORE);
      MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
      EXPECT_EQ(sums, values(1500, size * (size - 1) / 2 + size * round));
      EXPECT_EQ(scanned[0], own * (own + 1) / 2 + (own + 1) * round);
      for (int i = 0; i < size; ++i) EXPECT_EQ(exchanged[at(i)], i * 100 + own + round);
    }
    for (MPI_Request& request : requests) {
      EXPECT_NE(request, MPI_REQUEST_NULL);
      MPI_Request_free(&request);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
    }
  });
}

TEST(PersistentCollectives, ARequestThatIsNotActiveIsLikeNone) {
  run_everywhere(2, [] {
    int data = 0, flag = 0, index = 0, done = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Bcast_init(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Request const handle = request;
    MPI_Status status{1, 2, 3, 4, 5};
    MPI_Wait(&request, &status);
    EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
    EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
    EXPECT_EQ(status.byte_count, 0);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 1);
    MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
    EXPECT_EQ(index, MPI_UNDEFINED);
    MPI_Waitsome(1, &request, &done, &index, MPI_STATUSES_IGNORE);
    EXPECT_EQ(done, MPI_UNDEFINED);
    flag = 0;
    MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(request, handle);
    MPI_Request_free(&request);
  });
}

TEST(PersistentCollectives, OnlyWhatIsNotActiveCanBeStarted) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    EXPECT_EQ(MPI_Startall(2, requests), MPI_ERR_REQUEST);  // starts none
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_SUCCESS);
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
  });
}

TEST(PersistentCollectives, OperationsFarApartAreNotMixed) {
  run_everywhere(2, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    int data[2] = {own == 0 ? 10 : 0, own == 0 ? 20 : 0};
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) {
      MPI_Bcast_init(&data[i], 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
      // as if other operations were complete: two operations are 2^21 apart
      mpi::member(mpi::self(), MPI_COMM_WORLD)->collectives += (1u << 21) - 1;
    }
    for (int i = 0; i < 2; ++i) MPI_Start(&requests[own == 0 ? i : 1 - i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    EXPECT_EQ(data[0], 10);
    EXPECT_EQ(data[1], 20);
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  });
}

}  // namespace persistent_collectives_test
}  // namespace quarry::test
