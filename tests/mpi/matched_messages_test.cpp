// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quarry::test {
namespace matched_messages_test {

TEST(Mprobe, TakesAMessageThatNoOtherReceiveGets) {
  for (int const count : {1, 100, 3000}) {
    run_everywhere(2, [&] {
      int const own = rank_in(MPI_COMM_WORLD);
      auto const size = static_cast<std::size_t>(count);
      if (own == 0) {
        for (int i = 0; i < 3; ++i) {
          std::vector<int> const sent(size, i);
          MPI_Ssend(sent.data(), count, MPI_INT, 1, 5, MPI_COMM_WORLD);
        }
        return;
      }
      std::array<MPI_Message, 2> messages{};
      MPI_Status status{};
      std::vector<int> got(size);
      EXPECT_EQ(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &messages[0], &status), MPI_SUCCESS);
      EXPECT_TRUE(status.MPI_SOURCE == 0 && status.MPI_TAG == 5 && status.byte_count == 4 * count);
      MPI_Message const kept = messages[0];
      EXPECT_EQ(MPI_Mrecv(got.data(), count, MPI_INT, &messages[0], &status), MPI_SUCCESS);
      EXPECT_EQ(messages[0], MPI_MESSAGE_NULL);
      EXPECT_EQ(got, std::vector<int>(size, 0));
      for (int flag = 0; flag == 0;)
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &messages[1], &status);
      EXPECT_EQ(messages[1], kept);  // handles are used again
      MPI_Request request{};
      EXPECT_EQ(MPI_Imrecv(got.data(), count, MPI_INT, &messages[1], &request), MPI_SUCCESS);
      EXPECT_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
      EXPECT_EQ(status.byte_count, 4 * count);
      EXPECT_EQ(got, std::vector<int>(size, 1));
      MPI_Recv(got.data(), count, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(got, std::vector<int>(size, 2));
    });
  }
}

TEST(Mprobe, MessagesCanBeReceivedInAnyOrder) {
  run_everywhere(1, [] {
    std::array<MPI_Message, 20> messages{};
    for (int i = 0; i < 20; ++i) {
      MPI_Send(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
      MPI_Mprobe(0, 0, MPI_COMM_WORLD, &messages[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE);
    }
    int flag = 1;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 0);
    for (int i = 19; i >= 0; --i) {
      int got = -1;
      MPI_Mrecv(&got, 1, MPI_INT, &messages[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE);
      EXPECT_EQ(got, i);
    }
  });
}

TEST(Mprobe, OfNoPeerGivesAMessageOfNoProcess) {
  run_everywhere(1, [] {
    MPI_Message message{};
    MPI_Status status{};
    int flag = 0, value = 3;
    MPI_Request request{};
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    EXPECT_EQ(message, MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    EXPECT_TRUE(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &message, &status);
    EXPECT_TRUE(flag == 1 && message == MPI_MESSAGE_NO_PROC);
    MPI_Imrecv(&value, 1, MPI_INT, &message, &request);
    MPI_Wait(&request, &status);
    EXPECT_TRUE(status.MPI_SOURCE == MPI_PROC_NULL && status.byte_count == 0);
    EXPECT_EQ(message, MPI_MESSAGE_NULL);
    EXPECT_EQ(value, 3);
  });
}

TEST(Mprobe, ErrorsGoToTheCommunicatorOfTheMessage) {
  run_everywhere(1, [] {
    MPI_Comm copy{};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    std::array<int, 2> const sent{1, 2};
    int got = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request{};
    EXPECT_EQ(MPI_Mprobe(3, 0, copy, &message, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    EXPECT_EQ(message, MPI_MESSAGE_NULL);
    for (int i = 0; i < 2; ++i) MPI_Send(sent.data(), 2, MPI_INT, 0, 0, copy);
    MPI_Mprobe(0, 0, copy, &message, MPI_STATUS_IGNORE);
    EXPECT_EQ(MPI_Mrecv(&got, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Mrecv(&got, 1, MPI_DATATYPE_NULL, &message, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    EXPECT_EQ(got, 1);
    MPI_Mprobe(0, 0, copy, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(&got, 1, MPI_INT, &message, &request);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Comm_free(&copy);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT_EQ(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
  });
}

}  // namespace matched_messages_test
}  // namespace quarry::test
