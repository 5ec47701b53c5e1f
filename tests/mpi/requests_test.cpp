// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::test {
namespace requests_test {

bool is_empty(MPI_Status const& status) {
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  return status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG &&
         status.MPI_ERROR == MPI_SUCCESS && count == 0;
}

TEST(Requests, CallsWithoutRequestsGiveEmptyStatuses) {
  run_everywhere(1, [] {
    MPI_Request none[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status const junk{7, 7, 7, 0, 7};
    MPI_Status status = junk, statuses[3] = {junk, junk, junk};
    int flag = 0, index = 0, count = 0, indices[3];
    EXPECT_EQ(MPI_Wait(&none[0], &status), MPI_SUCCESS);
    EXPECT_TRUE(is_empty(status));
    status = junk;
    EXPECT_EQ(MPI_Test(&none[0], &flag, &status), MPI_SUCCESS);
    EXPECT_TRUE(is_empty(status) && flag == 1);
    EXPECT_EQ(MPI_Waitall(3, none, statuses), MPI_SUCCESS);
    for (auto const& each : statuses) EXPECT_TRUE(is_empty(each));
    status = junk;
    EXPECT_EQ(MPI_Waitany(3, none, &index, &status), MPI_SUCCESS);
    EXPECT_TRUE(is_empty(status) && index == MPI_UNDEFINED);
    status = junk, flag = 0;
    EXPECT_EQ(MPI_Testany(3, none, &index, &flag, &status), MPI_SUCCESS);
    EXPECT_TRUE(is_empty(status) && index == MPI_UNDEFINED && flag == 1);
    EXPECT_EQ(MPI_Waitsome(3, none, &count, indices, statuses), MPI_SUCCESS);
    EXPECT_EQ(count, MPI_UNDEFINED);
    EXPECT_EQ(MPI_Testsome(3, none, &count, indices, statuses), MPI_SUCCESS);
    EXPECT_EQ(count, MPI_UNDEFINED);
    EXPECT_EQ(MPI_Testall(0, none, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(flag, 1);
  });
}

/// Rank 0 receives from all others with `complete`, which fills in the indices of what it got.
template <class Complete>
void receive_all(Complete const& complete) {
  run_everywhere(6, [&] {
    int const own = rank_in(MPI_COMM_WORLD);
    if (own != 0) {
      std::vector<int> const data(own % 2 == 0 ? 3000 : 1, own);
      MPI_Send(data.data(), static_cast<int>(data.size()), MPI_INT, 0, own, MPI_COMM_WORLD);
      return;
    }
    std::vector<std::vector<int>> data(5, std::vector<int>(3000, -1));
    std::array<MPI_Request, 5> requests{};
    for (int i = 0; i < 5; ++i)
      MPI_Irecv(data[static_cast<std::size_t>(i)].data(), 3000, MPI_INT, i + 1, MPI_ANY_TAG,
                MPI_COMM_WORLD, &requests[static_cast<std::size_t>(i)]);
    std::array<bool, 5> has_got{};
    for (int got = 0; got < 5;) {
      std::array<int, 5> indices{};
      std::array<MPI_Status, 5> statuses{};
      int const count = complete(requests.data(), indices.data(), statuses.data());
      for (int i = 0; i < count; ++i) {
        auto const index = static_cast<std::size_t>(indices[static_cast<std::size_t>(i)]);
        EXPECT_FALSE(has_got[index]);
        has_got[index] = true;
        EXPECT_EQ(requests[index], MPI_REQUEST_NULL);
        EXPECT_EQ(statuses[static_cast<std::size_t>(i)].MPI_TAG, static_cast<int>(index) + 1);
        EXPECT_EQ(data[index][0], static_cast<int>(index) + 1);
      }
      got += count;
    }
  });
}

TEST(Requests, WaitanyCompletesEachRequestOnce) {
  receive_all([](MPI_Request* requests, int* indices, MPI_Status* statuses) {
    MPI_Waitany(5, requests, indices, statuses);
    return 1;
  });
}
TEST(Requests, TestanyCompletesEachRequestOnce) {
  receive_all([](MPI_Request* requests, int* indices, MPI_Status* statuses) {
    int flag = 0;
    MPI_Testany(5, requests, indices, &flag, statuses);
    return flag;
  });
}
TEST(Requests, WaitsomeCompletesEachRequestOnce) {
  receive_all([](MPI_Request* requests, int* indices, MPI_Status* statuses) {
    int count = 0;
    MPI_Waitsome(5, requests, &count, indices, statuses);
    EXPECT_GE(count, 1);
    return count;
  });
}
TEST(Requests, TestsomeCompletesEachRequestOnce) {
  receive_all([](MPI_Request* requests, int* indices, MPI_Status* statuses) {
    int count = 0;
    MPI_Testsome(5, requests, &count, indices, statuses);
    return count;
  });
}
TEST(Requests, TestallCompletesAllRequestsOrNone) {
  receive_all([](MPI_Request* requests, int* indices, MPI_Status* statuses) {
    int flag = 0;
    MPI_Testall(5, requests, &flag, statuses);
    for (int i = 0; i < 5; ++i) {
      indices[i] = i;
      EXPECT_EQ(requests[i] == MPI_REQUEST_NULL, flag != 0);
    }
    return flag != 0 ? 5 : 0;
  });
}

TEST(Requests, WaitallTellsInTheStatusesWhichOperationFailed) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int data[3] = {1, 2, 3};
    MPI_Request requests[3];
    MPI_Status statuses[3];
    if (rank_in(MPI_COMM_WORLD) == 1) {
      for (int tag = 0; tag < 3; ++tag)
        MPI_Isend(data, tag == 1 ? 2 : 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[tag]);
      EXPECT_EQ(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
      return;
    }
    for (int tag = 0; tag < 3; ++tag)
      MPI_Irecv(&data[tag], 1, MPI_INT, 1, tag, MPI_COMM_WORLD, &requests[tag]);
    for (auto& status : statuses) status.MPI_ERROR = 77;
    EXPECT_EQ(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
    EXPECT_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
    EXPECT_EQ(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE);
    EXPECT_EQ(statuses[2].MPI_ERROR, MPI_SUCCESS);
    for (MPI_Request const request : requests) EXPECT_EQ(request, MPI_REQUEST_NULL);
  });
}

TEST(Requests, FreedRequestsCompleteAndReleaseTheirMemory) {
  run_everywhere(2, [] {
    std::vector<int> data(5000, 9), got(5000);
    int const own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 10; ++round) {
      MPI_Request request;
      if (own == 0) {
        MPI_Isend(data.data(), 5000, MPI_INT, 1, round, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        EXPECT_EQ(request, MPI_REQUEST_NULL);
        int answer = 0;
        MPI_Recv(&answer, 1, MPI_INT, 1, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(answer, round);
      } else {
        MPI_Irecv(got.data(), 5000, MPI_INT, 0, round, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        while (got.back() != 9) {  // the receive has no other sign
          int flag = 0;
          MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        got.assign(5000, 0);
        MPI_Send(&round, 1, MPI_INT, 0, round, MPI_COMM_WORLD);
      }
    }
  });
}

TEST(Requests, OnlyCallsThatReturnErrInStatusChangeTheErrorOfAStatus) {
  run_everywhere(1, [] {
    for (int const words : {1, 2000}) {
      std::vector<int> data(static_cast<std::size_t>(words)), got(data);
      MPI_Request requests[2];
      MPI_Irecv(got.data(), words, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(data.data(), words, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[1]);
      for (MPI_Request& request : requests) {
        MPI_Status status{};
        status.MPI_ERROR = 42;
        EXPECT_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
        EXPECT_EQ(status.MPI_ERROR, 42);
      }
    }
  });
}

TEST(Requests, UnknownRequestsAreRefused) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Request unknown = 1234, none = MPI_REQUEST_NULL;
    int flag = 0;
    EXPECT_EQ(MPI_Wait(&unknown, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Waitall(1, &unknown, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Testall(1, &unknown, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Request_free(&none), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Waitall(-1, &none, MPI_STATUSES_IGNORE), MPI_ERR_COUNT);
  });
}

}  // namespace requests_test
}  // namespace quarry::test
