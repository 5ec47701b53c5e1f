// SPDX-License-Identifier: Apache-2.0
// Random interleavings of all kinds of sends and receives. A message says which one of its sender,
// receiver and tag it is; the model is that these are received in the order of the receives.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quarry::test {
namespace random_requests_test {

constexpr int ranks = 4;
constexpr int tags = 3;
constexpr int most_words = 2500;
constexpr int word_counts[] = {3, 10, 13, 14, 200, 1024, 1100, most_words};

struct planned {
  int source, target, tag, words, number, how;
};

/// The messages of one round, the same in all ranks.
std::vector<planned> plan(shared_random& random, int count) {
  std::vector<planned> result;
  std::map<std::array<int, 3>, int> numbers;
  for (int i = 0; i < count; ++i) {
    planned made{random.below(ranks),
                 random.below(ranks),
                 random.below(tags),
                 word_counts[random.below(8)],
                 0,
                 random.below(9)};
    made.number = numbers[{made.source, made.target, made.tag}]++;
    result.push_back(made);
  }
  return result;
}

std::vector<int> content(planned const& message) {
  std::vector<int> words(static_cast<std::size_t>(message.words), message.number * 7 + message.tag);
  words[0] = message.source;
  words[1] = message.number;
  words[2] = message.words;
  return words;
}

/// What a rank has begun, and how to check it at the end.
struct begun {
  planned message;
  std::vector<int> data;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_receive = false;
};

void begin_send(begun& made) {
  planned const& message = made.message;
  made.data = content(message);
  int const count = message.words, to = message.target, tag = message.tag;
  void const* const data = made.data.data();
  MPI_Request* const request = &made.request;
  switch (message.how) {
    case 0:
      MPI_Issend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
      break;
    case 1:
      MPI_Ibsend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
      break;
    case 2:
      MPI_Bsend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD);
      break;
    case 3:
      MPI_Send_init(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
      MPI_Start(request);
      break;
    case 4:
      MPI_Ssend_init(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
      MPI_Start(request);
      break;
    case 5:
      MPI_Bsend_init(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
      MPI_Start(request);
      break;
    case 6:
      MPI_Isendrecv(data, count, MPI_INT, to, tag, nullptr, 0, MPI_INT, MPI_PROC_NULL, 0,
                    MPI_COMM_WORLD, request);
      break;
    default:
      MPI_Isend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
  }
}

/// Begins a receive of the next message of this source and tag.
void begin_receive(begun& made, int how) {
  planned const& message = made.message;
  made.is_receive = true;
  made.data.assign(most_words, -1);
  int const from = message.source, tag = message.tag;
  MPI_Message found = MPI_MESSAGE_NULL;
  int flag = 0;
  switch (how) {
    case 0:
      MPI_Recv_init(made.data.data(), most_words, MPI_INT, from, tag, MPI_COMM_WORLD,
                    &made.request);
      MPI_Start(&made.request);
      return;
    case 1:
      MPI_Isendrecv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, made.data.data(), most_words, MPI_INT,
                    from, tag, MPI_COMM_WORLD, &made.request);
      return;
    case 2:
      MPI_Improbe(from, tag, MPI_COMM_WORLD, &flag, &found, MPI_STATUS_IGNORE);
      if (flag != 0) {
        MPI_Imrecv(made.data.data(), most_words, MPI_INT, &found, &made.request);
        return;
      }
      break;
    case 3:  // cancelled, and begun again unless a message was faster
      MPI_Irecv(made.data.data(), most_words, MPI_INT, from, tag, MPI_COMM_WORLD, &made.request);
      MPI_Cancel(&made.request);
      MPI_Status status;
      MPI_Request_get_status(made.request, &flag, &status);
      EXPECT_EQ(flag, 1);
      MPI_Test_cancelled(&status, &flag);
      if (flag == 0) return;
      MPI_Wait(&made.request, MPI_STATUS_IGNORE);
      break;
    default:
      break;
  }
  MPI_Irecv(made.data.data(), most_words, MPI_INT, from, tag, MPI_COMM_WORLD, &made.request);
}

void check(begun const& done, MPI_Status const& status) {
  if (!done.is_receive) return;
  planned const& message = done.message;
  EXPECT_EQ(status.MPI_SOURCE, message.source);
  EXPECT_EQ(status.MPI_TAG, message.tag);
  EXPECT_EQ(status.byte_count, 4 * message.words);
  std::vector<int> expected = content(message);
  expected.resize(most_words, -1);
  EXPECT_EQ(done.data, expected);
}

/// Completes all operations in one of several ways.
void complete(std::vector<std::unique_ptr<begun>>& all, int how) {
  std::vector<MPI_Request> requests;
  std::vector<MPI_Status> statuses(all.size());
  std::vector<int> indices(all.size());
  for (auto const& each : all) requests.push_back(each->request);
  auto const count = static_cast<int>(all.size());
  auto const completed = [&](int index, MPI_Status const& status) {
    check(*all[static_cast<std::size_t>(index)], status);
  };
  int done = 0, flag = 0, index = 0;
  switch (how) {
    case 0:
      MPI_Waitall(count, requests.data(), statuses.data());
      for (int i = 0; i < count; ++i) completed(i, statuses[static_cast<std::size_t>(i)]);
      break;
    case 1:
      while (MPI_Waitany(count, requests.data(), &index, statuses.data()), index != MPI_UNDEFINED)
        completed(index, statuses[0]);
      break;
    case 2:
      while (MPI_Testsome(count, requests.data(), &done, indices.data(), statuses.data()),
             done != MPI_UNDEFINED)
        for (int i = 0; i < done; ++i)
          completed(indices[static_cast<std::size_t>(i)], statuses[static_cast<std::size_t>(i)]);
      break;
    default:
      while (flag == 0) MPI_Testall(count, requests.data(), &flag, statuses.data());
      for (int i = 0; i < count; ++i) completed(i, statuses[static_cast<std::size_t>(i)]);
  }
  for (MPI_Request& each : requests)
    if (each != MPI_REQUEST_NULL) MPI_Request_free(&each);  // persistent ones
}

TEST(RandomRequests, MessagesOfOneSenderAndTagComeInOrder) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_everywhere(ranks, [seed] {
      int const own = rank_in(MPI_COMM_WORLD);
      shared_random random{seed};
      shared_random own_random{seed * 100 + static_cast<std::uint64_t>(own)};
      std::vector<char> room(4 * most_words * 100);
      MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
      for (int round = 0; round < 2; ++round) {
        std::vector<planned> const messages = plan(random, 60);
        // each rank begins what concerns it in an order of its own, in which messages of a sender,
        // receiver and tag stay in order
        std::vector<std::vector<planned>> queues(2 * ranks * tags);
        std::size_t left = 0;
        for (planned const& each : messages) {
          auto const queue_of = [&](int peer, bool is_receive) -> std::vector<planned>& {
            return queues[static_cast<std::size_t>((peer * tags + each.tag) * 2 + is_receive)];
          };
          if (each.source == own) queue_of(each.target, false).push_back(each), ++left;
          if (each.target == own) queue_of(each.source, true).push_back(each), ++left;
        }
        std::vector<std::size_t> next(queues.size());
        std::vector<std::unique_ptr<begun>> all;
        while (left != 0) {
          auto const queue =
              static_cast<std::size_t>(own_random.below(static_cast<int>(queues.size())));
          if (next[queue] == queues[queue].size()) continue;
          all.push_back(std::make_unique<begun>());
          all.back()->message = queues[queue][next[queue]++];
          --left;
          if (queue % 2 == 0) {
            begin_send(*all.back());
          } else {
            begin_receive(*all.back(), own_random.below(6));
          }
        }
        complete(all, own_random.below(4));
      }
      void* detached = nullptr;
      int size = 0;
      MPI_Buffer_detach(static_cast<void*>(&detached), &size);
    });
  }
}

}  // namespace random_requests_test
}  // namespace quarry::test
