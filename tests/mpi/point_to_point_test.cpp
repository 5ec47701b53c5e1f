// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include "mpi/world.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace quarry::test {
namespace {

TEST(PointToPoint, MessagesOfOneSenderArriveInOrder) {
  run_everywhere(2, [] {
    for (int i = 0; i < 50; ++i) {
      int value = i;
      if (rank_in(MPI_COMM_WORLD) == 0) {
        MPI_Send(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
      } else {
        MPI_Recv(&value, 1, MPI_INT, 0, i % 2 == 0 ? 3 : MPI_ANY_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        EXPECT_EQ(value, i);
      }
    }
  });
}

TEST(PointToPoint, ReceivesChooseMessagesByTagInAnyOrder) {
  run_everywhere(2, [] {
    constexpr int count = 16;
    if (rank_in(MPI_COMM_WORLD) == 0) {
      for (int tag = 0; tag < count; ++tag) MPI_Send(&tag, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
    } else {
      for (int tag = count - 1; tag >= 0; --tag) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(value, tag);
      }
    }
  });
}

TEST(PointToPoint, ManySendersAtOneMailboxLoseNothingAndKeepTheirOrder) {
  run_everywhere(5, [] {
    constexpr int messages = 30;
    int const own = rank_in(MPI_COMM_WORLD);
    if (own != 0) {
      for (int i = 0; i < messages; ++i) MPI_Send(&i, 1, MPI_INT, 0, own, MPI_COMM_WORLD);
      return;
    }
    std::array<int, 5> next{};
    for (int i = 0; i < 4 * messages; ++i) {
      int value = -1;
      MPI_Status status;
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      EXPECT_EQ(status.MPI_TAG, status.MPI_SOURCE);
      EXPECT_EQ(value, next[static_cast<std::size_t>(status.MPI_SOURCE)]++);
    }
  });
}

TEST(PointToPoint, AnEarlierReceiveGetsTheEarlierMessage) {
  run_everywhere(2, [] {
    int values[2] = {-1, -1};
    if (rank_in(MPI_COMM_WORLD) == 0) {
      MPI_Request requests[2];
      MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
      MPI_Irecv(&values[1], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[1]);
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      EXPECT_EQ(values[0], 100);
      EXPECT_EQ(values[1], 101);
    } else {
      for (int value : {100, 101}) MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    }
  });
}

TEST(PointToPoint, BigMessagesArriveWhole) {
  run_everywhere(3, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    for (int count : {1023, 1024, 1025, 20000}) {
      std::vector<int> sent(static_cast<std::size_t>(count)), received(sent.size() + 1, -1);
      std::iota(sent.begin(), sent.end(), own * 1000);
      MPI_Request request;
      MPI_Status status;
      MPI_Irecv(received.data(), count + 1, MPI_INT, (own + 2) % 3, 0, MPI_COMM_WORLD, &request);
      MPI_Send(sent.data(), count, MPI_INT, (own + 1) % 3, 0, MPI_COMM_WORLD);
      MPI_Wait(&request, &status);
      int got = 0;
      MPI_Get_count(&status, MPI_INT, &got);
      EXPECT_EQ(got, count);
      EXPECT_EQ(received[0], (own + 2) % 3 * 1000);
      EXPECT_EQ(received[sent.size() - 1], (own + 2) % 3 * 1000 + count - 1);
      EXPECT_EQ(received[sent.size()], -1);
    }
  });
}

TEST(PointToPoint, ASynchronousSendEndsAfterTheReceiveBegins) {
  run_everywhere(2, [] {
    int token = 0;
    if (rank_in(MPI_COMM_WORLD) == 0) {
      MPI_Request request;
      int flag = 1;
      MPI_Issend(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, 0) << "rank 1 receives only after it has got the message with tag 1";
      MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
      MPI_Ssend(nullptr, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else {
      for (int tag : {1, 0, 2})
        MPI_Recv(&token, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  });
}

TEST(PointToPoint, TwoSynchronousSendsToEachOtherAreADeadlock) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(2, 1, [] {
    int value = 0;
    MPI_Ssend(&value, 1, MPI_INT, 1 - rank_in(MPI_COMM_WORLD), 0, MPI_COMM_WORLD);
  });
  EXPECT_TRUE(result.is_deadlocked);
}

TEST(PointToPoint, ATruncatedMessageIsAnErrorOfItsReceive) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int count : {4, 4000}) {  // copied, and not copied
      std::vector<int> values(static_cast<std::size_t>(count), 5);
      if (rank_in(MPI_COMM_WORLD) == 0) {
        EXPECT_EQ(MPI_Send(values.data(), count, MPI_INT, 1, 0, MPI_COMM_WORLD), MPI_SUCCESS);
        continue;
      }
      std::vector<int> got(values.size(), -1);
      EXPECT_EQ(MPI_Recv(got.data(), count - 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                MPI_ERR_TRUNCATE);
      EXPECT_EQ(got[values.size() - 2], 5);
      EXPECT_EQ(got[values.size() - 1], -1);
    }
  });
}

TEST(PointToPoint, MessagesInTwoCommunicatorsDoNotMix) {
  run_everywhere(2, [] {
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank_in(MPI_COMM_WORLD) == 0) {
      for (int value : {1, 2})
        MPI_Send(&value, 1, MPI_INT, 1, 0, value == 1 ? MPI_COMM_WORLD : other);
      MPI_Barrier(other);
    } else {
      int value = 0;
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE);
      EXPECT_EQ(value, 2);
      MPI_Request request;
      MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &request);
      MPI_Barrier(other);  // its messages match no receive of the program
      int flag = 1;
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, 0);
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(value, 1);
      MPI_Send(&value, 1, MPI_INT, 1, 0, other);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&other);
  });
}

TEST(PointToPoint, NoRankTakesPartInNothing) {
  run_everywhere(1, [] {
    int value = 7;
    MPI_Status status{3, 4, 5, 0, 9};
    EXPECT_EQ(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    EXPECT_EQ(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status), MPI_SUCCESS);
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(value, 7);
    EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
    EXPECT_EQ(count, 0);
    EXPECT_EQ(status.MPI_ERROR, 5) << "a receive does not set the error";
    int flag = 0;
    MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status);
    EXPECT_EQ(flag, 1);
    MPI_Request requests[2];
    MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
    EXPECT_EQ(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
  });
}

TEST(PointToPoint, ARankCanSendToItself) {
  run_everywhere(2, [] {
    for (MPI_Comm communicator : {MPI_COMM_SELF, MPI_COMM_WORLD}) {
      int const own = rank_in(communicator);
      int sent = own + 5, received = -1;
      MPI_Sendrecv(&sent, 1, MPI_INT, own, 1, &received, 1, MPI_INT, own, 1, communicator,
                   MPI_STATUS_IGNORE);
      EXPECT_EQ(received, sent);
    }
  });
}

TEST(PointToPoint, AProbeTellsTheMessageThatTheNextReceiveGets) {
  run_everywhere(3, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    if (own != 0) {
      std::vector<double> const values(static_cast<std::size_t>(own) * 400, own);
      MPI_Send(values.data(), own * 400, MPI_DOUBLE, 0, 10 + own, MPI_COMM_WORLD);
      return;
    }
    for (int i = 0; i < 2; ++i) {
      MPI_Status status;
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      int count = 0;
      MPI_Get_count(&status, MPI_DOUBLE, &count);
      EXPECT_EQ(count, status.MPI_SOURCE * 400);
      EXPECT_EQ(status.MPI_TAG, 10 + status.MPI_SOURCE);
      std::vector<double> values(static_cast<std::size_t>(count));
      MPI_Recv(values.data(), count, MPI_DOUBLE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               &status);
      EXPECT_EQ(values.back(), status.MPI_SOURCE);
    }
  });
}

TEST(PointToPoint, ASizeThatIsNoMultipleOfTheTypeHasNoCount) {
  run_everywhere(1, [] {
    MPI_Status status{0, 0, 0, 0, 10};
    int count = 0;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(count, MPI_UNDEFINED);
    MPI_Get_count(&status, MPI_CHAR, &count);
    EXPECT_EQ(count, 10);
    status.byte_count = 24;
    MPI_Get_count(&status, MPI_DOUBLE_INT, &count);
    EXPECT_EQ(count, 2) << "a double and an int are 12 bytes of a message";
  });
}

TEST(PointToPoint, ABufferedSendNeedsABufferThatTheMessageFits) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    constexpr int count = 3000;
    std::vector<int> values(count, rank_in(MPI_COMM_WORLD)), got(count);
    int const peer = 1 - rank_in(MPI_COMM_WORLD);
    EXPECT_EQ(MPI_Bsend(values.data(), count, MPI_INT, peer, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    std::vector<char> buffer(2 * (count * sizeof(int) + MPI_BSEND_OVERHEAD));
    MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
    MPI_Request request;
    MPI_Bsend(values.data(), count, MPI_INT, peer, 0, MPI_COMM_WORLD);
    MPI_Ibsend(values.data(), count, MPI_INT, peer, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    values.assign(count, -1);  // both messages are copies
    for (int tag : {1, 0}) {
      MPI_Recv(got.data(), count, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(got, std::vector<int>(count, peer));
    }
    void* address = nullptr;
    int size = 0;
    MPI_Buffer_detach(static_cast<void*>(&address), &size);
    EXPECT_EQ(address, buffer.data());
    EXPECT_EQ(size, static_cast<int>(buffer.size()));
  });
}

TEST(PointToPoint, ReadySendsArriveInReceivesThatWait) {
  run_everywhere(2, [] {
    int data[2] = {-1, -1};
    int const values[2] = {5, 6};
    MPI_Request requests[2];
    if (rank_in(MPI_COMM_WORLD) == 0) {
      for (int i = 0; i < 2; ++i)
        MPI_Irecv(&data[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      EXPECT_EQ(data[0], 5);
      EXPECT_EQ(data[1], 6);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Rsend(&values[0], 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
      MPI_Irsend(&values[1], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
  });
}

TEST(PointToPoint, SendrecvReplaceExchangesInOneBuffer) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int count : {0, 1, 3000}) {
      std::vector<int> values(static_cast<std::size_t>(count), own);
      MPI_Status status;
      MPI_Sendrecv_replace(values.data(), count, MPI_INT, (own + 1) % size, 4,
                           (own + size - 1) % size, 4, MPI_COMM_WORLD, &status);
      EXPECT_EQ(values, std::vector<int>(values.size(), (own + size - 1) % size));
      EXPECT_EQ(status.MPI_SOURCE, (own + size - 1) % size);
    }
  });
}

/// The first messages allocate, later ones reuse memory and may take a shorter path. Both paths
/// must agree on the bytes of a message.
TEST(PointToPoint, PairsWithGapsArriveAlikeInFreshAndUsedRanks) {
  struct pair {
    double value;
    int place;
  };
  run_everywhere(2, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 8; ++round) {
      int token = own;
      MPI_Sendrecv_replace(&token, 1, MPI_INT, 1 - own, 1, 1 - own, 1, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
      std::array<pair, 2> data{pair{0.5 + round, 7}, pair{1.5 + round, 9}};
      if (own == 0) {
        MPI_Send(data.data(), 2, MPI_DOUBLE_INT, 1, 2, MPI_COMM_WORLD);
        continue;
      }
      data = {};
      MPI_Status status;
      if (round % 2 == 0) {
        MPI_Recv(data.data(), 2, MPI_DOUBLE_INT, 0, 2, MPI_COMM_WORLD, &status);
      } else {
        MPI_Request request;
        MPI_Irecv(data.data(), 2, MPI_DOUBLE_INT, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
      }
      int count = -1;
      MPI_Get_count(&status, MPI_DOUBLE_INT, &count);
      EXPECT_EQ(count, 2);
      EXPECT_EQ(data[0].value, 0.5 + round);
      EXPECT_EQ(data[0].place, 7);
      EXPECT_EQ(data[1].value, 1.5 + round);
      EXPECT_EQ(data[1].place, 9);
    }
  });
}

/// Receives the message with tag 1 from rank 0. Calls `send` before or after the receive begins.
using receive_way = void (*)(int& value, MPI_Datatype type, void (*send)());

constexpr receive_way receive_ways[] = {
    [](int& value, MPI_Datatype type, void (*send)()) {
      send();
      MPI_Recv(&value, 1, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    },
    [](int& value, MPI_Datatype type, void (*send)()) {
      MPI_Request request;
      MPI_Irecv(&value, 1, type, 0, 1, MPI_COMM_WORLD, &request);
      send();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    },
    [](int& value, MPI_Datatype type, void (*send)()) {
      MPI_Request request;
      MPI_Recv_init(&value, 1, type, 0, 1, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
      send();
      MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
      MPI_Request_free(&request);
    },
    [](int& value, MPI_Datatype type, void (*send)()) {
      send();
      MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, type, 0, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    }};

/// Expects that a receive took the message with tag 0, which no receive wants yet, but none after
/// that with tag 1.
void expect_later_messages_in_mailbox() {
  mpi::message const* const passed = mpi::self().unexpected_first;
  ASSERT_NE(passed, nullptr);
  EXPECT_EQ(passed->head.tag, 0u);
  EXPECT_EQ(passed->later, nullptr) << "message 2 has its slot";
}

/// A type that the program makes, so that receives take the general path.
MPI_Datatype made_type() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(1, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

TEST(PointToPoint, AReceiveLeavesLaterMessagesInTheMailbox) {
  run_everywhere(1, [&] {
    MPI_Datatype type = made_type();
    for (receive_way const receive : receive_ways) {
      int value = -1;
      receive(value, type, [] {
        for (int tag = 0; tag < 3; ++tag) MPI_Send(&tag, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
      });
      EXPECT_EQ(value, 1);
      expect_later_messages_in_mailbox();
      for (int const tag : {0, 2}) {
        MPI_Recv(&value, 1, type, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(value, tag);
      }
      EXPECT_EQ(mpi::self().unexpected_first, nullptr);
    }
    MPI_Type_free(&type);
  });
}

TEST(PointToPoint, ARankThatWaitsForAReceiveLeavesLaterMessagesInTheMailbox) {
  run_everywhere(2, [&] {
    MPI_Datatype type = made_type();
    for (receive_way const receive : receive_ways) {
      int value = -1;
      if (rank_in(MPI_COMM_WORLD) == 0) {
        MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int tag = 0; tag < 3; ++tag) MPI_Send(&tag, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
        continue;
      }
      receive(value, type, [] {
        int const token = 7;
        MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
      });
      EXPECT_EQ(value, 1);
      expect_later_messages_in_mailbox();
      for (int const tag : {0, 2}) {
        MPI_Recv(&value, 1, type, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT_EQ(value, tag);
      }
    }
    MPI_Type_free(&type);
  });
}

TEST(PointToPoint, RanksSendMoreThanMailboxesHoldBeforeTheyReceive) {
  run_everywhere(3, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Datatype type = made_type();
    int first = -1;  // its end leaves messages in the mailbox
    MPI_Request request;
    MPI_Irecv(&first, 1, type, (own + 2) % 3, 3, MPI_COMM_WORLD, &request);
    for (int tag = 0; tag < 10; ++tag)
      MPI_Send(&tag, 1, MPI_INT, (own + 1) % 3, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(first, 3);
    for (int tag = 9; tag >= 0; --tag) {
      if (tag == 3) continue;
      int value = -1;
      MPI_Recv(&value, 1, type, (own + 2) % 3, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(value, tag);
    }
    MPI_Type_free(&type);
  });
}

TEST(PointToPoint, AUsedRankRefusesNumbersThatAreNoTypes) {
  run_everywhere(2, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int token = own;
    for (int round = 0; round < 4; ++round)
      MPI_Sendrecv_replace(&token, 1, MPI_INT, 1 - own, 1, 1 - own, 1, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
    EXPECT_EQ(MPI_Send(&token, 1, 0x47f, 1 - own, 2, MPI_COMM_WORLD), MPI_ERR_TYPE);
  });
}

}  // namespace
}  // namespace quarry::test
