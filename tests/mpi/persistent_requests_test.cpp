// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::test {
namespace persistent_requests_test {

bool is_empty(MPI_Status const& status) {
  return status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG &&
         status.MPI_ERROR == MPI_SUCCESS && status.byte_count == 0 && status.is_cancelled == 0;
}

using send_init = int (*)(void const*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

TEST(PersistentRequests, EachStartSendsWhatTheBufferHasThen) {
  for (send_init const init : {&MPI_Send_init, &MPI_Ssend_init, &MPI_Bsend_init, &MPI_Rsend_init}) {
    for (int const count : {1, 100, 3000}) {
      run_everywhere(2, [&] {
        int const peer = 1 - rank_in(MPI_COMM_WORLD);
        std::vector<int> sent(static_cast<std::size_t>(count)), got(sent.size());
        std::vector<char> room(std::size_t{4} * sent.size());
        MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
        std::array<MPI_Request, 2> requests{};
        MPI_Recv_init(got.data(), count, MPI_INT, peer, 7, MPI_COMM_WORLD, &requests[0]);
        init(sent.data(), count, MPI_INT, peer, 7, MPI_COMM_WORLD, &requests[1]);
        auto const before = requests;
        for (int turn = 0; turn < 4; ++turn) {
          for (int& value : sent) value = 10 * turn + rank_in(MPI_COMM_WORLD);
          std::array<MPI_Status, 2> statuses{};
          EXPECT_EQ(MPI_Startall(2, requests.data()), MPI_SUCCESS);
          EXPECT_EQ(MPI_Waitall(2, requests.data(), statuses.data()), MPI_SUCCESS);
          EXPECT_EQ(requests, before);
          EXPECT_EQ(statuses[0].MPI_SOURCE, peer);
          EXPECT_EQ(statuses[0].byte_count, 4 * count);
          EXPECT_EQ(got, std::vector<int>(got.size(), 10 * turn + peer));
          MPI_Barrier(MPI_COMM_WORLD);  // the attached buffer is empty
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
        void* attached = nullptr;
        int size = 0;
        MPI_Buffer_detach(static_cast<void*>(&attached), &size);
      });
    }
  }
}

TEST(PersistentRequests, ARequestThatIsNotActiveIsAsGoodAsNone) {
  run_everywhere(1, [] {
    int sent = 5, got = 0;
    std::array<MPI_Request, 2> requests{};
    MPI_Send_init(&sent, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &requests[1]);
    for (int turn = 0; turn < 2; ++turn) {
      MPI_Status const junk{7, 7, 7, 1, 7};
      int flag = 0, index = 0, count = 0;
      std::array<int, 2> indices{};
      for (MPI_Request& each : requests) {
        MPI_Status status = junk;
        EXPECT_EQ(MPI_Wait(&each, &status), MPI_SUCCESS);
        EXPECT_TRUE(is_empty(status));
        status = junk;
        EXPECT_EQ(MPI_Test(&each, &flag, &status), MPI_SUCCESS);
        EXPECT_TRUE(flag == 1 && is_empty(status));
        status = junk, flag = 0;
        EXPECT_EQ(MPI_Request_get_status(each, &flag, &status), MPI_SUCCESS);
        EXPECT_TRUE(flag == 1 && is_empty(status));
      }
      MPI_Status status = junk;
      EXPECT_EQ(MPI_Waitany(2, requests.data(), &index, &status), MPI_SUCCESS);
      EXPECT_TRUE(index == MPI_UNDEFINED && is_empty(status));
      EXPECT_EQ(MPI_Testsome(2, requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE),
                MPI_SUCCESS);
      EXPECT_EQ(count, MPI_UNDEFINED);
      std::array<MPI_Status, 2> statuses{junk, junk};
      EXPECT_EQ(MPI_Waitall(2, requests.data(), statuses.data()), MPI_SUCCESS);
      EXPECT_TRUE(is_empty(statuses[0]) && is_empty(statuses[1]));
      if (turn == 0) {
        MPI_Start(&requests[0]);
        MPI_Start(&requests[1]);
        EXPECT_EQ(MPI_Waitsome(2, requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE),
                  MPI_SUCCESS);
        MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
        EXPECT_EQ(got, 5);
      }
    }
    for (MPI_Request& each : requests) EXPECT_EQ(MPI_Request_free(&each), MPI_SUCCESS);
  });
}

/// What the fast path of MPI_Irecv takes from the spare requests has to be as new.
TEST(PersistentRequests, AreReusedAsOthersAfterTheyAreFreed) {
  run_everywhere(1, [] {
    for (int turn = 0; turn < 40; ++turn) {
      int got = 0;
      MPI_Request request{};
      MPI_Recv_init(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
      MPI_Request_free(&request);
      MPI_Irecv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
      MPI_Send(&turn, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
      EXPECT_EQ(got, turn);
    }
  });
}

TEST(PersistentRequests, OutliveTheirCommunicatorAndTheirDatatype) {
  run_everywhere(2, [] {
    int const peer = 1 - rank_in(MPI_COMM_WORLD);
    MPI_Comm copy{};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Datatype column{};
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    std::array<int, 6> sent{1, 0, 2, 0, 3, 0}, got{};
    std::array<MPI_Request, 3> requests{};
    MPI_Send_init(sent.data(), 1, column, peer, 0, copy, &requests[0]);
    MPI_Recv_init(got.data(), 1, column, peer, 0, copy, &requests[1]);
    MPI_Recv_init(got.data(), 1, MPI_INT, peer, 0, copy, &requests[2]);
    MPI_Comm_free(&copy);
    MPI_Type_free(&column);
    for (int turn = 0; turn < 3; ++turn) {
      got = {};
      EXPECT_EQ(MPI_Startall(2, requests.data()), MPI_SUCCESS);
      EXPECT_EQ(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
      EXPECT_EQ(got, sent);
      // the message is too long; the freed communicator's error handler returns that, again and
      // again
      MPI_Start(&requests[2]);
      MPI_Start(&requests[0]);
      EXPECT_EQ(MPI_Wait(&requests[2], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    for (MPI_Request& each : requests) MPI_Request_free(&each);
  });
}

TEST(PersistentRequests, AnActiveRequestThatIsFreedEndsByItself) {
  run_everywhere(2, [] {
    int const peer = 1 - rank_in(MPI_COMM_WORLD);
    std::vector<int> sent(3000, peer), got(3000);
    MPI_Request request{};
    MPI_Send_init(sent.data(), 3000, MPI_INT, peer, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
    MPI_Recv_init(got.data(), 3000, MPI_INT, peer, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(got, std::vector<int>(3000, 1 - peer));
    MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);  // the peer has what was sent
  });
}

TEST(PersistentRequests, StartRefusesActiveAndOtherRequests) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int value = 0;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
    EXPECT_EQ(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    MPI_Recv_init(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Start(&requests[1]);
    EXPECT_EQ(MPI_Start(&requests[1]), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Startall(2, requests.data()), MPI_ERR_REQUEST);
    EXPECT_EQ(MPI_Startall(-1, requests.data()), MPI_ERR_COUNT);
    MPI_Request refused = MPI_REQUEST_NULL;
    EXPECT_EQ(MPI_Send_init(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &refused), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Recv_init(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &refused), MPI_ERR_COUNT);
    EXPECT_EQ(refused, MPI_REQUEST_NULL);
    for (int tag = 0; tag < 2; ++tag) MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[1]);
  });
}

TEST(PersistentRequests, NoPeerMeansThatNothingIsSent) {
  run_everywhere(1, [] {
    int value = 3;
    std::array<MPI_Request, 2> requests{};
    MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
    for (int turn = 0; turn < 2; ++turn) {
      std::array<MPI_Status, 2> statuses{};
      MPI_Startall(2, requests.data());
      EXPECT_EQ(MPI_Waitall(2, requests.data(), statuses.data()), MPI_SUCCESS);
      EXPECT_EQ(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
      EXPECT_EQ(value, 3);
    }
    for (MPI_Request& each : requests) MPI_Request_free(&each);
  });
}

TEST(PersistentRequests, MemoryIsFreedWithTheRequests) {
  auto const allocations = [](int turns) {
    return run_on_fibers(1, 1,
                         [turns] {
                           int value = 0;
                           for (int i = 0; i < turns; ++i) {
                             std::array<MPI_Request, 2> requests{};
                             MPI_Send_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
                             MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[1]);
                             MPI_Startall(2, requests.data());
                             MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
                             for (MPI_Request& each : requests) MPI_Request_free(&each);
                             MPI_Isendrecv_replace(&value, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_WORLD,
                                                   &requests[0]);
                             MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
                           }
                         })
        .allocations;
  };
  EXPECT_EQ(allocations(2), allocations(50));
}

TEST(Isendrecv, SendsAndReceivesWithOneRequest) {
  for (int const count : {1, 100, 3000}) {
    run_everywhere(3, [&] {
      int const own = rank_in(MPI_COMM_WORLD);
      int const right = (own + 1) % 3, left = (own + 2) % 3;
      std::vector<int> sent(static_cast<std::size_t>(count), own), got(sent.size());
      MPI_Request request{};
      MPI_Status status{};
      MPI_Isendrecv(sent.data(), count, MPI_INT, right, 4, got.data(), count, MPI_INT, left, 4,
                    MPI_COMM_WORLD, &request);
      EXPECT_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
      EXPECT_EQ(status.MPI_SOURCE, left);
      EXPECT_EQ(got, std::vector<int>(got.size(), left));
      MPI_Isendrecv_replace(got.data(), count, MPI_INT, right, 5, left, MPI_ANY_TAG, MPI_COMM_WORLD,
                            &request);
      for (int flag = 0; flag == 0;) MPI_Test(&request, &flag, &status);
      EXPECT_EQ(status.MPI_TAG, 5);
      EXPECT_EQ(got, std::vector<int>(got.size(), right));  // of the one before the left
    });
  }
}

}  // namespace persistent_requests_test
}  // namespace quarry::test
