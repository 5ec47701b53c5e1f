// SPDX-License-Identifier: Apache-2.0
// Every collective operation against a model: each rank knows what all ranks contribute.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace quarry::test {
namespace collectives_test {

using values = std::vector<int>;

constexpr int max_count = 40;
constexpr int big = 3000;  // elements of a message that is not copied

/// What rank `rank` contributes to the operation that `random` has drawn.
values contribution(int rank, int count, int salt) {
  values result;
  for (int i = 0; i < count; ++i) result.push_back((rank + 1) * 1000 + i * 7 + salt);
  return result;
}

int draw_count(shared_random& random) {
  return random.below(8) == 0 ? big : random.below(max_count);
}

/// The counts and the displacements of each rank's part, with gaps, in random order.
struct layout {
  layout(int size, shared_random& random) : counts(at(size)), displacements(at(size)) {
    values order(at(size));
    for (int i = 0; i < size; ++i) order[at(i)] = i;
    for (int i = size; i-- > 1;) std::swap(order[at(i)], order[at(random.below(i + 1))]);
    for (int const rank : order) {
      counts[at(rank)] = draw_count(random);
      displacements[at(rank)] = total + random.below(3);
      total = displacements[at(rank)] + counts[at(rank)];
    }
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  values counts, displacements;
  int total = 0;
};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void append(values& all, values const& more) { all.insert(all.end(), more.begin(), more.end()); }

TEST(Collectives, BarrierHoldsUntilTheLastRankComes) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int last = 0; last < size; ++last) {
      // The last rank's message precedes its barrier, so all ranks see it after theirs.
      if (own == last)
        for (int to = 0; to < size; ++to)
          if (to != own) MPI_Send(nullptr, 0, MPI_INT, to, last, MPI_COMM_WORLD);
      MPI_Barrier(MPI_COMM_WORLD);
      int flag = 0;
      MPI_Iprobe(last, last, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, own == last ? 0 : 1);
      if (own != last) MPI_Recv(nullptr, 0, MPI_INT, last, last, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  });
}

TEST(Collectives, BcastGivesAllRanksTheRootsData) {
  run_in_worlds([] {
    shared_random random{1};
    for (int round = 0; round < 6; ++round) {
      int const root = random.below(size_of(MPI_COMM_WORLD)), count = draw_count(random);
      auto data = contribution(rank_in(MPI_COMM_WORLD), count, round);
      MPI_Bcast(data.data(), count, MPI_INT, root, MPI_COMM_WORLD);
      EXPECT_EQ(data, contribution(root, count, round));
    }
  });
}

TEST(Collectives, GatherAndScatterMoveTheRanksParts) {
  run_in_worlds([] {
    shared_random random{2};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 6; ++round) {
      int const root = random.below(size), count = draw_count(random);
      values all;
      for (int rank = 0; rank < size; ++rank) append(all, contribution(rank, count, round));
      values part = contribution(own, count, round);
      values gathered(own == root ? all.size() : 0);
      MPI_Gather(part.data(), count, MPI_INT, gathered.data(), count, MPI_INT, root,
                 MPI_COMM_WORLD);
      if (own == root) {
        EXPECT_EQ(gathered, all);
      }
      values scattered(at(count), -1);
      MPI_Scatter(own == root ? all.data() : nullptr, count, MPI_INT, scattered.data(), count,
                  MPI_INT, root, MPI_COMM_WORLD);
      EXPECT_EQ(scattered, part);
    }
  });
}

TEST(Collectives, GathervAndScattervUseTheRootsCountsAndPlaces) {
  run_in_worlds([] {
    shared_random random{3};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 6; ++round) {
      int const root = random.below(size);
      layout const parts{size, random};
      values all(at(parts.total), -1);  // -1: between the parts
      for (int rank = 0; rank < size; ++rank) {
        auto const part = contribution(rank, parts.counts[at(rank)], round);
        std::copy(part.begin(), part.end(), all.begin() + parts.displacements[at(rank)]);
      }
      values const part = contribution(own, parts.counts[at(own)], round);
      values gathered(all.size(), -1);
      MPI_Gatherv(part.data(), static_cast<int>(part.size()), MPI_INT, gathered.data(),
                  parts.counts.data(), parts.displacements.data(), MPI_INT, root, MPI_COMM_WORLD);
      EXPECT_EQ(gathered, own == root ? all : values(all.size(), -1));
      values scattered(part.size(), -1);
      MPI_Scatterv(all.data(), parts.counts.data(), parts.displacements.data(), MPI_INT,
                   scattered.data(), static_cast<int>(part.size()), MPI_INT, root, MPI_COMM_WORLD);
      EXPECT_EQ(scattered, part);
      values gathered_by_all(all.size(), -1);
      MPI_Allgatherv(part.data(), static_cast<int>(part.size()), MPI_INT, gathered_by_all.data(),
                     parts.counts.data(), parts.displacements.data(), MPI_INT, MPI_COMM_WORLD);
      EXPECT_EQ(gathered_by_all, all);
    }
  });
}

TEST(Collectives, AllgatherAndAlltoallGiveEachRankItsParts) {
  run_in_worlds([] {
    shared_random random{4};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 4; ++round) {
      int const count = draw_count(random);
      values all, outgoing, incoming;
      for (int rank = 0; rank < size; ++rank) {
        append(all, contribution(rank, count, round));
        append(outgoing, contribution(own, count, rank));
        append(incoming, contribution(rank, count, own));
      }
      auto part = contribution(own, count, round);
      values gathered(all.size(), -1);
      MPI_Allgather(part.data(), count, MPI_INT, gathered.data(), count, MPI_INT, MPI_COMM_WORLD);
      EXPECT_EQ(gathered, all);
      values received(incoming.size(), -1);
      MPI_Alltoall(outgoing.data(), count, MPI_INT, received.data(), count, MPI_INT,
                   MPI_COMM_WORLD);
      EXPECT_EQ(received, incoming);
    }
  });
}

TEST(Collectives, AlltoallvExchangesPartsOfDifferentSizes) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    auto const count = [](int from, int to) { return (from * 5 + to * 3) % 11 * (to % 3); };
    values outgoing, incoming, sent_counts, sent_places, received_counts, received_places;
    for (int rank = 0; rank < size; ++rank) {
      sent_counts.push_back(count(own, rank));
      sent_places.push_back(static_cast<int>(outgoing.size()));
      append(outgoing, contribution(own, count(own, rank), rank));
      received_counts.push_back(count(rank, own));
      received_places.push_back(static_cast<int>(incoming.size()));
      append(incoming, contribution(rank, count(rank, own), own));
    }
    values received(incoming.size(), -1);
    MPI_Alltoallv(outgoing.data(), sent_counts.data(), sent_places.data(), MPI_INT, received.data(),
                  received_counts.data(), received_places.data(), MPI_INT, MPI_COMM_WORLD);
    EXPECT_EQ(received, incoming);
  });
}

TEST(Collectives, DataInPlaceGiveTheSameResults) {
  run_in_worlds([] {
    shared_random random{5};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    int const root = random.below(size), count = 1 + random.below(max_count);
    values all, incoming, exchanged, sums(at(count)), lower(at(count)), upper(at(count));
    for (int rank = 0; rank < size; ++rank) {
      append(all, contribution(rank, count, 0));
      append(incoming, contribution(rank, count, own));
      append(exchanged, contribution(own, count, rank));
      for (int i = 0; i < count; ++i) {
        int const value = contribution(rank, count, 0)[at(i)];
        sums[at(i)] += value;
        if (rank < own) lower[at(i)] += value;
        if (rank <= own) upper[at(i)] += value;
      }
    }
    auto const part = contribution(own, count, 0);
    auto const own_part = [&](values& whole) {
      whole.assign(all.size(), -1);
      std::copy(part.begin(), part.end(), whole.begin() + own * count);
    };
    values data;
    own_part(data);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), count, MPI_INT, MPI_COMM_WORLD);
    EXPECT_EQ(data, all);
    own_part(data);
    MPI_Gather(own == root ? MPI_IN_PLACE : part.data(), count, MPI_INT, data.data(), count,
               MPI_INT, root, MPI_COMM_WORLD);
    if (own == root) {
      EXPECT_EQ(data, all);
    }
    data = own == root ? all : values(at(count), -1);
    MPI_Scatter(data.data(), count, MPI_INT, own == root ? MPI_IN_PLACE : data.data(), count,
                MPI_INT, root, MPI_COMM_WORLD);
    EXPECT_EQ(data, own == root ? all : part);
    data = exchanged;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), count, MPI_INT, MPI_COMM_WORLD);
    EXPECT_EQ(data, incoming);
    data = part;
    MPI_Reduce(own == root ? MPI_IN_PLACE : data.data(), own == root ? data.data() : nullptr, count,
               MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    EXPECT_EQ(data, own == root ? sums : part);
    data = part;
    MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(data, sums);
    data = part;
    MPI_Scan(MPI_IN_PLACE, data.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(data, upper);
    data = part;
    MPI_Exscan(MPI_IN_PLACE, data.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(data, own == 0 ? part : lower);
  });
}

TEST(Collectives, OperationsThatFollowEachOtherDoNotMix) {
  run_everywhere(5, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    for (int i = 0; i < 30; ++i) {
      int value = own == i % 5 ? i : -1, total = 0;
      MPI_Bcast(&value, 1, MPI_INT, i % 5, MPI_COMM_WORLD);
      EXPECT_EQ(value, i);
      MPI_Reduce(&value, &total, 1, MPI_INT, MPI_SUM, (i + 1) % 5, MPI_COMM_WORLD);
      if (own == (i + 1) % 5) {
        EXPECT_EQ(total, 5 * i);
      }
    }
  });
}

TEST(Collectives, AMessageThatIsLongerThanExpectedIsAnError) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bool const is_root = rank_in(MPI_COMM_WORLD) == 0;
    int data[2] = {4, 5};
    EXPECT_EQ(MPI_Bcast(data, is_root ? 2 : 1, MPI_INT, 0, MPI_COMM_WORLD),
              is_root ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
    int gathered[2];
    EXPECT_EQ(MPI_Gather(data, is_root ? 1 : 2, MPI_INT, gathered, 1, MPI_INT, 0, MPI_COMM_WORLD),
              is_root ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
  });
}

TEST(Collectives, ALongerBroadcastFailsInTheWaitOfTheReceiver) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int data[4] = {1, 2, 3, 4};
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(data, own == 0 ? 4 : 2, MPI_INT, 0, MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), own == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
  });
}

TEST(Collectives, AReductionInOneRankIsInPlace) {
  run_everywhere(1, [] {
    int const left[2] = {2, 3};
    int right[2] = {5, 7};
    MPI_Reduce_local(left, right, 2, MPI_INT, MPI_PROD);
    EXPECT_EQ(right[0], 10);
    EXPECT_EQ(right[1], 21);
    int commutes = 0;
    MPI_Op_commutative(MPI_PROD, &commutes);
    EXPECT_EQ(commutes, 1);
  });
}

}  // namespace collectives_test
}  // namespace quarry::test
