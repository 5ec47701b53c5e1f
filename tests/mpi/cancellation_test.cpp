// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::test {
namespace cancellation_test {

int is_cancelled(MPI_Status const& status) {
  int flag = -1;
  MPI_Test_cancelled(&status, &flag);
  return flag;
}

TEST(Cancel, EndsAReceiveThatNoMessageMatches) {
  run_everywhere(2, [] {
    int const peer = 1 - rank_in(MPI_COMM_WORLD);
    std::array<int, 3> got{-1, -1, -1};
    std::array<MPI_Request, 3> requests{};
    std::array<MPI_Status, 3> statuses{};
    for (int i = 0; i < 3; ++i)
      MPI_Irecv(&got[static_cast<std::size_t>(i)], 1, MPI_INT, peer, i == 1 ? 9 : 1, MPI_COMM_WORLD,
                &requests[static_cast<std::size_t>(i)]);
    MPI_Cancel(&requests[1]);  // in the middle of the list
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) MPI_Send(&i, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
    MPI_Waitall(3, requests.data(), statuses.data());
    EXPECT_EQ(is_cancelled(statuses[0]), 0);
    EXPECT_EQ(is_cancelled(statuses[1]), 1);
    EXPECT_EQ(is_cancelled(statuses[2]), 0);
    EXPECT_EQ(got, (std::array<int, 3>{0, -1, 1}));
    // the message that it would have got comes to the next receive
    MPI_Send(&peer, 1, MPI_INT, peer, 9, MPI_COMM_WORLD);
    MPI_Recv(&got[1], 1, MPI_INT, peer, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(got[1], 1 - peer);
  });
}

TEST(Cancel, ComesTooLateForAMessageThatHasArrived) {
  run_everywhere(1, [] {
    int sent = 5, got = 0;
    MPI_Request request{};
    MPI_Status status{};
    MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Send(&sent, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    EXPECT_EQ(is_cancelled(status), 0);
    EXPECT_EQ(got, 5);
  });
}

TEST(Cancel, EndsOneTurnOfAPersistentReceive) {
  run_everywhere(1, [] {
    int got = 0;
    MPI_Request request{};
    MPI_Status status{};
    MPI_Recv_init(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    for (int turn = 0; turn < 4; ++turn) {
      MPI_Start(&request);
      if (turn % 2 == 0) {
        MPI_Cancel(&request);
      } else {
        MPI_Send(&turn, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
      }
      MPI_Wait(&request, &status);
      EXPECT_EQ(is_cancelled(status), turn % 2 == 0);
      EXPECT_EQ(got, turn % 2 == 0 ? turn - (turn > 0) : turn);
    }
    MPI_Request_free(&request);
  });
}

/// Rank 0 sends with `init` and cancels; rank 1 never receives.
void cancel_sends(bool is_persistent, int count) {
  run_everywhere(2, [&] {
    std::vector<int> data(static_cast<std::size_t>(count), 4);
    if (rank_in(MPI_COMM_WORLD) == 0) {
      MPI_Request request{};
      if (is_persistent)
        MPI_Ssend_init(data.data(), count, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
      for (int turn = 0; turn < 3; ++turn) {
        MPI_Status status{};
        if (is_persistent) {
          MPI_Start(&request);
        } else {
          MPI_Issend(data.data(), count, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        }
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        EXPECT_EQ(is_cancelled(status), 1);
      }
      if (is_persistent) MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int flag = 1;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 0);
  });
}

TEST(Cancel, TakesBackASendThatWaitsForItsReceiver) {
  for (int const count : {1, 3000}) {
    cancel_sends(false, count);
    cancel_sends(true, count);
  }
}

/// The receiver may have the message, or not: sender and receiver agree.
TEST(Cancel, ASentMessageIsReceivedOrCancelled) {
  run_everywhere(2, [] {
    std::vector<int> data(3000, 4);
    for (int turn = 0; turn < 10; ++turn) {
      MPI_Request request{};
      MPI_Status status{};
      if (rank_in(MPI_COMM_WORLD) == 0) {
        MPI_Isend(data.data(), 3000, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        int const is_sent = 1 - is_cancelled(status);
        MPI_Send(&is_sent, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
      } else {
        int is_sent = -1;
        data.assign(3000, 0);
        MPI_Irecv(data.data(), 3000, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        if (turn % 3 == 0) MPI_Cancel(&request);
        MPI_Recv(&is_sent, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (turn % 3 != 0) MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        if (is_sent != 0 && is_cancelled(status) != 0)
          MPI_Recv(data.data(), 3000, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(data, std::vector<int>(3000, is_sent * 4));
      }
      MPI_Barrier(MPI_COMM_WORLD);  // the next message is for the next receive
    }
  });
}

TEST(Cancel, LeavesWhatIsDoneAndRefusesWhatIsNoActiveRequest) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int sent = 4, got = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    EXPECT_EQ(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Isend(&sent, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Cancel(&request), MPI_SUCCESS);
    MPI_Wait(&request, &status);
    EXPECT_EQ(is_cancelled(status), 0);
    MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(got, 4);
    MPI_Recv_init(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Request_free(&request);
  });
}

TEST(Cancel, MemoryOfCancelledReceivesIsFreed) {
  auto const allocations = [](int turns) {
    return run_on_fibers(1, 1,
                         [turns] {
                           MPI_Datatype pair{};
                           MPI_Type_contiguous(2, MPI_INT, &pair);
                           MPI_Type_commit(&pair);
                           std::array<int, 2> got{};
                           for (int i = 0; i < turns; ++i) {
                             MPI_Request request{};
                             MPI_Irecv(got.data(), 1, pair, 0, 0, MPI_COMM_WORLD, &request);
                             MPI_Cancel(&request);
                             i % 2 == 0 ? MPI_Wait(&request, MPI_STATUS_IGNORE)
                                        : MPI_Request_free(&request);
                           }
                           MPI_Type_free(&pair);
                         })
        .allocations;
  };
  EXPECT_EQ(allocations(2), allocations(50));
}

TEST(RequestGetStatus, TellsTheStatusAndLeavesTheRequest) {
  run_everywhere(1, [] {
    int sent = 5, got = 0, flag = 1;
    MPI_Request request{};
    MPI_Status status{};
    MPI_Irecv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Request_get_status(request, &flag, &status), MPI_SUCCESS);
    EXPECT_EQ(flag, 0);
    MPI_Send(&sent, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(MPI_Request_get_status(request, &flag, &status), MPI_SUCCESS);
      EXPECT_TRUE(flag == 1 && status.MPI_TAG == 3);
      EXPECT_NE(request, MPI_REQUEST_NULL);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(got, 5);
  });
}

/// What the functions of a generalized request see.
struct own_operation {
  int queries = 0;
  int frees = 0;
  int cancels = 0;
  int was_complete = -1;
};
int query(void* state, MPI_Status* status) {
  ++static_cast<own_operation*>(state)->queries;
  status->MPI_SOURCE = 7;
  status->MPI_TAG = 8;
  return MPI_Status_set_cancelled(status, static_cast<own_operation*>(state)->cancels);
}
int free_state(void* state) {
  ++static_cast<own_operation*>(state)->frees;
  return MPI_SUCCESS;
}
int cancel(void* state, int is_complete) {
  ++static_cast<own_operation*>(state)->cancels;
  static_cast<own_operation*>(state)->was_complete = is_complete;
  return MPI_SUCCESS;
}

TEST(GeneralizedRequests, CallTheProgramsFunctionsOnce) {
  run_everywhere(1, [] {
    own_operation operation;
    MPI_Request request{};
    MPI_Status status{};
    int flag = 1;
    MPI_Grequest_start(&query, &free_state, &cancel, &operation, &request);
    MPI_Test(&request, &flag, &status);
    EXPECT_EQ(flag, 0);
    MPI_Cancel(&request);
    EXPECT_TRUE(operation.cancels == 1 && operation.was_complete == 0);
    EXPECT_EQ(operation.queries, 0);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    EXPECT_TRUE(status.MPI_SOURCE == 7 && status.MPI_TAG == 8 && is_cancelled(status) == 1);
    EXPECT_TRUE(operation.queries == 1 && operation.frees == 1);
    // freed before it is complete
    MPI_Grequest_start(&query, &free_state, &cancel, &operation, &request);
    MPI_Request const kept = request;
    MPI_Request_free(&request);
    EXPECT_EQ(operation.frees, 1);
    MPI_Grequest_complete(kept);
    EXPECT_EQ(operation.frees, 2);
  });
}

TEST(GeneralizedRequests, GiveTheErrorsOfTheProgramsFunctions) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Request request{};
    int value = 0;
    auto const fail = [](void*) { return MPI_ERR_OTHER; };
    EXPECT_EQ(MPI_Grequest_start(nullptr, fail, &cancel, nullptr, &request), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    own_operation operation;
    MPI_Grequest_start(&query, fail, &cancel, &operation, &request);
    MPI_Grequest_complete(request);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Grequest_complete(request), MPI_ERR_REQUEST);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  });
}

}  // namespace cancellation_test
}  // namespace quarry::test
