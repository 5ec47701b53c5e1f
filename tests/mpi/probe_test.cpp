// SPDX-License-Identifier: Apache-2.0
// MPI_Probe and MPI_Iprobe: which message they find, and where it stays.
#include "mpi/support/full_heap.hpp"
#include "mpi/support/ranks.hpp"

#include "mpi/world.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace quarry::test {
namespace probe_test {

void send_to_first(int value, int tag) { MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD); }

int receive(int tag) {
  int value = -1;
  MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return value;
}

/// Looks for a message with the tag, by MPI_Probe or by MPI_Iprobe, which must find one.
void expect_found(bool waits, int tag, int found_tag, int count) {
  MPI_Status status{};
  int flag = 1;
  if (waits) {
    MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
  } else {
    MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, &status);
  }
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(status.MPI_SOURCE, 0);
  EXPECT_EQ(status.MPI_TAG, found_tag);
  int all = -1;
  MPI_Get_count(&status, MPI_INT, &all);
  EXPECT_EQ(all, count);
}

TEST(Probe, TheMessageStaysInTheMailbox) {
  for (bool const waits : {true, false}) {
    run_everywhere(1, [&] {
      for (int tag = 0; tag < 3; ++tag) send_to_first(10 + tag, tag);
      expect_found(waits, 0, 0, 1);
      expect_found(waits, 0, 0, 1);  // again
      EXPECT_EQ(mpi::self().unexpected_first, nullptr);
      expect_found(waits, 1, 1, 1);
      mpi::message const* const passed = mpi::self().unexpected_first;
      ASSERT_NE(passed, nullptr);
      EXPECT_EQ(passed->later, nullptr) << "messages 1 and 2 have their slots";
      for (int tag = 2; tag >= 0; --tag) EXPECT_EQ(receive(tag), 10 + tag);
    });
  }
}

TEST(Probe, AnUnexpectedMessageCameBeforeThoseInTheMailbox) {
  for (bool const waits : {true, false}) {
    run_everywhere(1, [&] {
      send_to_first(7, 5);
      send_to_first(8, 9);
      expect_found(waits, 9, 9, 1);  // message 5 is unexpected now
      expect_found(waits, MPI_ANY_TAG, 5, 1);
      EXPECT_EQ(receive(MPI_ANY_TAG), 7);
      expect_found(waits, MPI_ANY_TAG, 9, 1);
      EXPECT_EQ(receive(MPI_ANY_TAG), 8);
    });
  }
}

TEST(Probe, ALongMessageComesBeforeALaterShortOne) {
  for (bool const waits : {true, false}) {
    run_everywhere(1, [&] {
      std::vector<int> const sent(3000, 4);
      std::vector<int> got(3000);
      MPI_Request request;
      MPI_Isend(sent.data(), 3000, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
      send_to_first(8, 3);
      expect_found(waits, MPI_ANY_TAG, 2, 3000);
      expect_found(waits, 3, 3, 1);
      MPI_Recv(got.data(), 3000, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_EQ(got, sent);
      EXPECT_EQ(receive(MPI_ANY_TAG), 8);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
  }
}

TEST(Probe, DoesNotFindAMessageThatAReceiveMatches) {
  run_everywhere(1, [] {
    MPI_Datatype column = MPI_DATATYPE_NULL;  // with gaps: the fast path cannot receive it
    MPI_Type_vector(30, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    int sent[30] = {};
    sent[29] = 6;
    int got[60] = {};
    MPI_Request request;
    MPI_Irecv(got, 1, column, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Send(sent, 30, MPI_INT, 0, 1, MPI_COMM_WORLD);
    int flag = 1;
    MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 0);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(got[58], 6);
    MPI_Type_free(&column);
  });
}

TEST(Probe, NeedsNoMemory) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const waits : {true, false}) {
    auto const result = run_on_fibers(
        1, 1,
        [&] {
          full_heap const full;
          for (int round = 0; round < 10; ++round) {
            send_to_first(round, 1);
            expect_found(waits, 1, 1, 1);
            EXPECT_EQ(receive(1), round);
          }
        },
        std::uint64_t{1} << 20);
    EXPECT_FALSE(result.is_deadlocked);
    EXPECT_EQ(result.failure, "");
  }
}

TEST(Probe, OfNoProcessIsDoneAtOnce) {
  run_everywhere(1, [] {
    MPI_Status status{};
    int flag = 0;
    MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  });
}

/// Rank 2 needs what rank 0 makes of a part of rank 1, which lies behind the message.
TEST(Probe, CollectiveOperationsGoOnBehindTheMessageThatItFinds) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::atomic<bool> has_begun{false}, has_ended{false};
    auto const result = run_on_fibers(4, seed, [&] {
      MPI_Request request;
      int const own = rank_in(MPI_COMM_WORLD);
      int sum = 0, flag = 0;
      while (own == 1 && !has_begun)
        MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);  // lets others run
      if (own == 1) send_to_first(7, 1);
      MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      if (own == 0) has_begun = true;
      for (int i = 0; own == 0 && i < 100'000 && !has_ended; ++i)
        MPI_Iprobe(1, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      EXPECT_TRUE(own != 0 || has_ended);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(sum, 6);
      if (own == 2) has_ended = true;
      EXPECT_EQ(own == 0 ? receive(1) : 7, 7);
    });
    EXPECT_EQ(result.failure, "");
  }
}

/// Ranks send to random ranks with random tags; the receiver probes, allocates and receives.
TEST(Probe, EachMessageIsFoundAndReceivedOnceInTheOrderOfItsSender) {
  run_everywhere(4, [] {
    constexpr int messages = 40;
    int const own = rank_in(MPI_COMM_WORLD);
    shared_random numbers{3};
    std::vector<int> expected(4 * 4);  // from and to: how many
    std::vector<int> next(4);  // of each sender: the number of its next message to this rank
    for (int i = 0; i < messages; ++i) {
      int const from = numbers.below(4), to = numbers.below(4), size = 1 + numbers.below(200);
      int const number = expected[static_cast<std::size_t>(from * 4 + to)]++;
      if (own != from) continue;
      std::vector<int> const data(static_cast<std::size_t>(size), number);
      MPI_Request request;  // a message of this size has a place of its own
      MPI_Isend(data.data(), size, MPI_INT, to, number % 3, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    int remaining = 0;
    for (int from = 0; from < 4; ++from)
      remaining += expected[static_cast<std::size_t>(from * 4 + own)];
    for (; remaining > 0; --remaining) {
      MPI_Status status{};
      int flag = 0;
      if (remaining % 2 == 0) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      } else {
        while (flag == 0) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
      }
      int count = 0;
      MPI_Get_count(&status, MPI_INT, &count);
      std::vector<int> data(static_cast<std::size_t>(count), -1);
      MPI_Recv(data.data(), count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      int const number = next[static_cast<std::size_t>(status.MPI_SOURCE)]++;
      EXPECT_EQ(status.MPI_TAG, number % 3);
      for (int const each : data) EXPECT_EQ(each, number);
    }
  });
}

}  // namespace probe_test
}  // namespace quarry::test
