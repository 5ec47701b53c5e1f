// SPDX-License-Identifier: Apache-2.0
// Messages of every size class, alignment and way to send arrive whole, and nothing else changes.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace quarry::test {
namespace message_calls_test {

/// Around the borders of words of a slot, of slots, of kept messages, and of copies by the sender.
constexpr int sizes[] = {0,  1,  3,  4,  5,   8,   11,  12,   13,   16,   20,  33,
                         48, 51, 52, 53, 255, 256, 257, 1000, 4096, 4097, 9000};

/// A buffer with guards, at an address that is `offset` more than a multiple of 16.
class buffer {
 public:
  buffer(int size, int offset) : memory_(static_cast<std::size_t>(size) + 64, 0x55) {
    std::size_t const past = reinterpret_cast<std::uintptr_t>(memory_.data()) % 16;
    data_ = memory_.data() + 32 - past + static_cast<std::size_t>(offset);
    size_ = static_cast<std::size_t>(size);
  }
  [[nodiscard]] unsigned char* data() const { return data_; }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = static_cast<unsigned char>(seed + 7 * i);
  }
  /// Whether the buffer has what `fill` writes, and the guards are as they were.
  [[nodiscard]] bool has(unsigned seed) const {
    for (auto const* byte = memory_.data(); byte != memory_.data() + memory_.size(); ++byte) {
      bool const is_data = byte >= data_ && byte < data_ + size_;
      auto const index = static_cast<std::size_t>(byte - data_);
      if (*byte != (is_data ? static_cast<unsigned char>(seed + 7 * index) : 0x55)) return false;
    }
    return true;
  }

 private:
  std::vector<unsigned char> memory_;
  unsigned char* data_;
  std::size_t size_;
};

enum class way { send, ssend, sendrecv, isend, issend };

/// The two ranks send a message to each other.
void exchange(way how, buffer const& sent, buffer const& got, int size, MPI_Comm among) {
  int const own = rank_in(among);
  int const other = 1 - own;
  MPI_Status status;
  MPI_Request requests[2];
  int const tag = size % 5;
  auto const receive = [&] { MPI_Recv(got.data(), size, MPI_CHAR, other, tag, among, &status); };
  switch (how) {
    case way::send:
    case way::ssend:
      if (own == 1) receive();
      (how == way::send ? MPI_Send : MPI_Ssend)(sent.data(), size, MPI_CHAR, other, tag, among);
      if (own == 0) receive();
      break;
    case way::sendrecv:
      MPI_Sendrecv(sent.data(), size, MPI_CHAR, other, tag, got.data(), size, MPI_CHAR, other, tag,
                   among, &status);
      break;
    case way::isend:
    case way::issend: {
      MPI_Irecv(got.data(), size, MPI_CHAR, MPI_ANY_SOURCE, tag, among, &requests[0]);
      (how == way::isend ? MPI_Isend : MPI_Issend)(sent.data(), size, MPI_CHAR, other, tag, among,
                                                   &requests[1]);
      MPI_Status statuses[2];
      EXPECT_EQ(MPI_Waitall(2, requests, statuses), MPI_SUCCESS);
      EXPECT_EQ(requests[0], MPI_REQUEST_NULL);
      EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
      EXPECT_EQ(statuses[1].MPI_SOURCE, MPI_ANY_SOURCE);
      status = statuses[0];
      break;
    }
  }
  int count = -1;
  MPI_Get_count(&status, MPI_CHAR, &count);
  EXPECT_EQ(count, size);
  EXPECT_EQ(status.MPI_SOURCE, other);
  EXPECT_EQ(status.MPI_TAG, tag);
}

void exchange_all(MPI_Comm among) {
  unsigned seed = 1;
  for (way const how : {way::send, way::ssend, way::sendrecv, way::isend, way::issend}) {
    for (int const size : sizes) {
      for (int const offset : {0, 4, 1}) {
        buffer sent{size, offset};
        buffer got{size, (offset * 7 + 8) % 16};
        sent.fill(++seed);
        exchange(how, sent, got, size, among);
        EXPECT_TRUE(got.has(seed)) << "way " << static_cast<int>(how) << ", " << size << " bytes";
      }
    }
  }
}

TEST(Messages, EverySizeArrivesWholeInEveryWay) {
  run_everywhere(2, [] { exchange_all(MPI_COMM_WORLD); });
}

TEST(Messages, TheSameInACommunicatorWithRanksInReverseOrder) {
  run_everywhere(2, [] {
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_in(MPI_COMM_WORLD), &reversed);
    EXPECT_EQ(rank_in(reversed), 1 - rank_in(MPI_COMM_WORLD));
    exchange_all(reversed);
    MPI_Comm_free(&reversed);
  });
}

/// The number of messages at a mailbox passes 2^32, and those after which the receiver wipes slots.
TEST(Messages, TheSameWhereNumbersOfMessagesWrap) {
  for (std::uint32_t const first : {0xfffffff0u, 0x3ffffff0u, 0xbffffff0u}) {
    begin_with_messages(first);
    run_everywhere(2, [] { exchange_all(MPI_COMM_WORLD); });
  }
  begin_with_messages(0);
}

/// Random messages from all to all, received by wildcards: each pair's messages stay in order.
TEST(Messages, MessagesOfEachPairStayInOrderWhateverTheirSizes) {
  run_everywhere(4, [] {
    constexpr int messages = 40;
    int const own = rank_in(MPI_COMM_WORLD);
    std::mt19937 random{static_cast<unsigned>(own) + 1};
    std::vector<MPI_Request> requests;
    std::vector<std::vector<int>> sent;
    for (int i = 0; i < messages; ++i) {
      for (int to = 0; to < 4; ++to) {
        int const words = 2 + static_cast<int>(random() % 3 == 0 ? random() % 1500 : random() % 12);
        sent.emplace_back(words, own);
        sent.back()[0] = i;
        sent.back()[1] = words;
        requests.emplace_back();
        MPI_Isend(sent.back().data(), words, MPI_INT, to, i % 3, MPI_COMM_WORLD, &requests.back());
      }
    }
    std::vector<int> next(4), got(1600);
    for (int i = 0; i < 4 * messages; ++i) {
      MPI_Status status;
      MPI_Recv(got.data(), 1600, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      auto const from = static_cast<std::size_t>(status.MPI_SOURCE);
      int count = 0;
      MPI_Get_count(&status, MPI_INT, &count);
      EXPECT_EQ(got[0], next[from]++);
      EXPECT_EQ(got[1], count);
      EXPECT_EQ(status.MPI_TAG, got[0] % 3);
      for (int k = 2; k < count; ++k)
        EXPECT_EQ(got[static_cast<std::size_t>(k)], status.MPI_SOURCE);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
}

/// A rank that is ahead sends messages before the receives that they match, from two sides.
TEST(Messages, NeighboursExchangeInTwoDirectionsWhoeverIsAhead) {
  run_everywhere(4, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    int const left = (own + 3) % 4;
    int const right = (own + 1) % 4;
    for (int round = 0; round < 36; ++round) {
      int const words = std::array{2, 13, 15, 1000}[static_cast<std::size_t>(round % 4)];
      auto const size = static_cast<std::size_t>(words);
      std::vector<int> const sent(size, 100 * round + own);
      std::vector<int> from_left(size), from_right(size);
      auto const send = [&](int to) {
        MPI_Send(sent.data(), words, MPI_INT, to, 0, MPI_COMM_WORLD);
      };
      auto const receive = [&](std::vector<int>& got, int from) {
        MPI_Recv(got.data(), words, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      };
      auto const exchange = [&](int to, std::vector<int>& got, int from) {
        MPI_Sendrecv(sent.data(), words, MPI_INT, to, 0, got.data(), words, MPI_INT, from, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      };
      switch (round / 4 % 3) {
        case 0:
          exchange(right, from_left, left);
          exchange(left, from_right, right);
          break;
        case 1: {
          MPI_Request requests[4];
          MPI_Irecv(from_right.data(), words, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[0]);
          MPI_Irecv(from_left.data(), words, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[1]);
          MPI_Isend(sent.data(), words, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[2]);
          MPI_Isend(sent.data(), words, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[3]);
          MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
          break;
        }
        default:
          send(left);
          send(right);
          receive(from_right, right);
          receive(from_left, left);
      }
      EXPECT_EQ(from_left, std::vector<int>(size, 100 * round + left)) << round;
      EXPECT_EQ(from_right, std::vector<int>(size, 100 * round + right)) << round;
    }
  });
}

/// Messages wait for their receives in the mailbox, in its slots and behind them, and as copies.
TEST(Messages, ReceivesInAnyOrderFindMessagesThatHaveCome) {
  run_everywhere(2, [] {
    constexpr int messages = 40;
    if (rank_in(MPI_COMM_WORLD) == 0) {
      std::vector<MPI_Request> requests(messages);
      std::vector<std::vector<int>> sent;
      for (int i = 0; i < messages; ++i) {
        sent.emplace_back(1 + static_cast<std::size_t>(i % 5 == 4 ? 2000 : i % 15), i);
        MPI_Isend(sent.back().data(), static_cast<int>(sent.back().size()), MPI_INT, 1, i,
                  MPI_COMM_WORLD, &requests[static_cast<std::size_t>(i)]);
      }
      MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
      return;
    }
    std::vector<int> order(messages);
    for (int i = 0; i < messages; ++i) order[static_cast<std::size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937{5});
    for (int const tag : order) {
      std::vector<int> got(2100, -1);
      MPI_Status status;
      MPI_Request request;
      switch (tag % 3) {
        case 0:
          MPI_Recv(got.data(), 2100, MPI_INT, 0, tag, MPI_COMM_WORLD, &status);
          break;
        case 1:
          MPI_Irecv(got.data(), 2100, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &request);
          MPI_Wait(&request, &status);
          break;
        default:
          MPI_Sendrecv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, got.data(), 2100, MPI_INT, 0, tag,
                       MPI_COMM_WORLD, &status);
      }
      int count = 0;
      MPI_Get_count(&status, MPI_INT, &count);
      EXPECT_EQ(count, 1 + (tag % 5 == 4 ? 2000 : tag % 15));
      EXPECT_EQ(status.MPI_TAG, tag);
      for (int k = 0; k < 2100; ++k)
        EXPECT_EQ(got[static_cast<std::size_t>(k)], k < count ? tag : -1);
    }
  });
}

/// A message that is too long is an error of its receive and of nothing else.
TEST(Messages, TruncationIsNoticedInEveryWayToReceive) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char const data[9000] = {};
    char got[9000];
    for (int const size : {8, 52, 53, 4096, 9000}) {
      for (int how = 0; how < 3; ++how) {
        if (rank_in(MPI_COMM_WORLD) == 0) {
          MPI_Send(data, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
          MPI_Send(data, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
          continue;
        }
        MPI_Request request;
        int error = MPI_SUCCESS;
        got[size - 1] = 7;
        if (how == 0) {
          error = MPI_Recv(got, size - 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
          MPI_Irecv(got, size - 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
          error = how == 1 ? MPI_Wait(&request, MPI_STATUS_IGNORE)
                           : MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        }
        EXPECT_EQ(error, how == 2 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE);
        EXPECT_EQ(got[size - 1], 7);
        EXPECT_EQ(MPI_Recv(got, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
      }
    }
  });
}

}  // namespace message_calls_test
}  // namespace quarry::test
