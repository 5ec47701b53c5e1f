// SPDX-License-Identifier: Apache-2.0
// Collective operations of communicators other than the world, whose members meet at a counter of
// their own (mpi/communicator_meeting.hpp) and read each other's memory.
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/communicator_meeting.hpp"
#include "mpi/communicator_objects.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace quarry::test {
namespace communicator_meeting_test {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

MPI_Comm part_of(MPI_Comm from, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(from, color, key, &part);
  return part;
}

/// Communicators of one world: copies, halves, rows and columns in both orders, and parts of parts.
class many_communicators {
 public:
  many_communicators() {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    int columns = 1;
    while ((columns + 1) * (columns + 1) <= size) ++columns;
    MPI_Comm copy, copy_of_half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    add(copy);
    add(part_of(MPI_COMM_WORLD, 0, -own));  // all ranks in the opposite order
    MPI_Comm const half = part_of(MPI_COMM_WORLD, own * 2 < size, own);
    add(half);
    MPI_Comm_dup(half, &copy_of_half);
    add(copy_of_half);
    add(part_of(MPI_COMM_WORLD, own / columns, own));  // rows
    add(part_of(MPI_COMM_WORLD, own / columns, -own));
    add(part_of(MPI_COMM_WORLD, own % columns, own));  // columns
    add(part_of(MPI_COMM_WORLD, own % columns, -own));
    add(part_of(half, own % 3, own * 7 % 5));
    add(part_of(MPI_COMM_WORLD, own % 5 == 0 ? MPI_UNDEFINED : 1, own));
  }
  ~many_communicators() {
    for (MPI_Comm& each : all_) MPI_Comm_free(&each);
  }
  many_communicators(many_communicators const&) = delete;

  template <class Act>
  void for_each(Act const& act) {
    for (MPI_Comm const each : all_) act(each);
  }

 private:
  void add(MPI_Comm made) {
    if (made != MPI_COMM_NULL) all_.push_back(made);
  }
  std::vector<MPI_Comm> all_;
};

void run_worlds(std::function<void()> const& body) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const ranks : {1u, 2u, 7u, 33u, 70u})
    for (std::uint64_t const seed : {1u, 2u}) {
      auto const result = run_on_fibers(ranks, seed, body);
      EXPECT_EQ(result.failure, "") << ranks << " ranks";
      EXPECT_EQ(result.status, 0);
      EXPECT_FALSE(result.is_deadlocked);
      EXPECT_EQ(result.wrong_frees, 0u);
    }
}

double operand(int rank, int i) { return 1.0 / (1 + (rank * 7 + i * 3) % 97); }

/// The sum by a binary tree over the ranks.
double sum_of(int size, int i) {
  std::vector<double> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(operand(rank, i));
  for (int reach = 1; reach < size; reach *= 2)
    for (int k = 0; k + reach < size; k += 2 * reach) values[index(k)] += values[index(k + reach)];
  return values[0];
}

TEST(CommunicatorMeeting, ABarrierOrdersWhatMembersWrite) {
  for (std::uint32_t const ranks : {2u, 5u, 8u}) {
    std::vector<int> written(ranks), in_pair(ranks);
    run_everywhere(ranks, [&] {
      int const own = rank_in(MPI_COMM_WORLD);
      MPI_Comm copy, pair = part_of(MPI_COMM_WORLD, own / 2, -own);
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      for (int round = 1; round <= 20; ++round) {
        written[index(own)] = round;
        MPI_Barrier(copy);
        for (int const value : written) EXPECT_EQ(value, round);
        in_pair[index(own)] = -round;
        MPI_Barrier(pair);
        std::size_t const other = index(own ^ 1);
        if (other < ranks) {
          EXPECT_EQ(in_pair[other], -round);
        }
        MPI_Barrier(copy);
      }
      MPI_Comm_free(&copy);
      MPI_Comm_free(&pair);
    });
  }
}

/// All lanes that continue together must find the same lanes.
TEST(CommunicatorMeeting, NeighboursInWorldAndCommunicatorContinueTogether) {
  run_worlds([] {
    many_communicators all;
    all.for_each([](MPI_Comm each) {
      mpi::rank_state& rank = mpi::self();
      auto const& shared = *mpi::member(rank, each)->shared;
      if (shared.meeting == nullptr) return;
      for (std::uint32_t own = 0; own < shared.size; ++own) {
        std::uint32_t const world = shared.world_rank(own, rank.rank);
        std::uint32_t const lanes = mpi::lanes_beside(shared, own, world);
        EXPECT_EQ(lanes >> world % 32 & 1, 1u);
        for (std::uint32_t other = 0; other < shared.size; ++other) {
          std::uint32_t const place = shared.world_rank(other, rank.rank);
          if (place / 32 != world / 32) continue;
          bool const is_beside = (lanes >> place % 32 & 1) != 0;
          EXPECT_EQ(is_beside, mpi::lanes_beside(shared, other, place) == lanes);
          if (other == own + 1) {
            EXPECT_EQ(is_beside, place == world + 1);
          }
        }
        if (own == static_cast<std::uint32_t>(rank_in(each))) {
          EXPECT_EQ(shared.meeting->places()[own].lanes, lanes);
        }
      }
    });
  });
}

TEST(CommunicatorMeeting, BroadcastsReachAllMembers) {
  run_worlds([] {
    many_communicators all;
    for (int round = 0; round < 3; ++round)
      all.for_each([&](MPI_Comm each) {
        int const own = rank_in(each), size = size_of(each);
        for (int const count : {1, 16, 17, 300}) {
          int const root = (round * 7 + count) % size;
          std::vector<int> data(index(count), own == root ? root * 3 + count : -1);
          EXPECT_EQ(MPI_Bcast(data.data(), count, MPI_INT, root, each), MPI_SUCCESS);
          EXPECT_EQ(data, std::vector<int>(index(count), root * 3 + count));
        }
      });
  });
}

/// Numbers at the limits of the ways: one of `reduce_few`, its most, more, and long ones.
TEST(CommunicatorMeeting, ReductionsHaveTheBitsOfABinaryTree) {
  run_worlds([] {
    many_communicators all;
    all.for_each([&](MPI_Comm each) {
      int const own = rank_in(each), size = size_of(each);
      for (int const count : {0, 1, 2, 3, 4, 9, 150}) {
        std::vector<double> sent(index(count)), result(index(count), -1), expected(index(count));
        for (int i = 0; i < count; ++i) {
          sent[index(i)] = operand(own, i);
          expected[index(i)] = sum_of(size, i);
        }
        MPI_Allreduce(sent.data(), result.data(), count, MPI_DOUBLE, MPI_SUM, each);
        EXPECT_EQ(result, expected);
        int const root = count % size;
        bool const is_root = own == root;
        std::vector<double> reduced = is_root ? sent : std::vector<double>(index(count), -1);
        MPI_Reduce(is_root ? MPI_IN_PLACE : sent.data(), reduced.data(), count, MPI_DOUBLE, MPI_SUM,
                   root, each);
        EXPECT_EQ(reduced, is_root ? expected : std::vector<double>(index(count), -1));
      }
      int most = own;
      MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, each);
      EXPECT_EQ(most, size - 1);
    });
  });
}

TEST(CommunicatorMeeting, AReductionOfManyMembersHasThreeLevels) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(1061, 5, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int const count : {1, 5}) {
      double sent[5], received[5];
      for (int i = 0; i < count; ++i) sent[i] = operand(rank_in(copy), i);
      MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, copy);
      for (int i = 0; i < count && rank_in(copy) % 100 == 0; ++i)
        EXPECT_EQ(received[i], sum_of(1061, i));
    }
    MPI_Comm_free(&copy);
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

int element(int from, int to, int i) { return from * 1000 + to * 10 + i; }
/// How many elements a rank sends to another one: often none, and often different numbers.
int count_of(int from, int to, int salt) { return (from * 5 + to * 3 + salt) % 7 % 5; }

TEST(CommunicatorMeeting, EveryMemberGetsItsParts) {
  run_worlds([] {
    many_communicators all;
    all.for_each([&](MPI_Comm each) {
      int const own = rank_in(each), size = size_of(each);
      for (int const count : {1, 3, 40}) {
        std::vector<int> own_part(index(count)), parts(index(count * size), -1), sent, expected;
        for (int i = 0; i < count; ++i) own_part[index(i)] = element(own, 0, i);
        for (int from = 0; from < size; ++from)
          for (int i = 0; i < count; ++i) expected.push_back(element(from, 0, i));
        MPI_Allgather(own_part.data(), count, MPI_INT, parts.data(), count, MPI_INT, each);
        EXPECT_EQ(parts, expected);
        parts.assign(parts.size(), -1);
        int const root = count % size;
        MPI_Gather(own_part.data(), count, MPI_INT, parts.data(), count, MPI_INT, root, each);
        EXPECT_EQ(parts, own == root ? expected : std::vector<int>(parts.size(), -1));
        own_part.assign(own_part.size(), -1);
        MPI_Scatter(expected.data(), count, MPI_INT, own_part.data(), count, MPI_INT, root, each);
        EXPECT_EQ(own_part.back(), element(own, 0, count - 1));
        expected.clear();
        for (int peer = 0; peer < size; ++peer)
          for (int i = 0; i < count; ++i) {
            sent.push_back(element(own, peer, i));
            expected.push_back(element(peer, own, i));
          }
        MPI_Alltoall(sent.data(), count, MPI_INT, parts.data(), count, MPI_INT, each);
        EXPECT_EQ(parts, expected);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, sent.data(), count, MPI_INT, each);
        EXPECT_EQ(sent, expected);
      }
    });
  });
}

/// A buffer with a part for each rank, whose parts lie in another order and with gaps.
struct spread_parts {
  spread_parts(int size, int stride, std::function<int(int)> const& count_for)
      : counts(index(size)), places(index(size)) {
    int next = 2;
    for (int k = 0; k < size; ++k) {
      int const rank = (size - k) % size;
      counts[index(rank)] = count_for(rank);
      places[index(rank)] = next;
      next += counts[index(rank)] + k % 3;
    }
    data.assign(index((next + 2) * stride), -1);
  }
  std::vector<int> counts, places, data;
};

/// Sends with a type of `sent_stride` ints of which one counts, and receives so.
void exchange(MPI_Comm among, int salt, int sent_stride, int received_stride) {
  int const own = rank_in(among), size = size_of(among);
  MPI_Datatype sent_type = MPI_INT, received_type = MPI_INT;
  auto const make = [](int stride, MPI_Datatype& type) {
    if (stride == 1) return;
    MPI_Type_create_resized(MPI_INT, 0, stride * static_cast<int>(sizeof(int)), &type);
    MPI_Type_commit(&type);
  };
  make(sent_stride, sent_type);
  make(received_stride, received_type);
  spread_parts sent{size, sent_stride, [&](int to) { return count_of(own, to, salt); }};
  spread_parts got{size, received_stride, [&](int from) { return count_of(from, own, salt); }};
  auto expected = got.data;
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < sent.counts[index(peer)]; ++i)
      sent.data[index((sent.places[index(peer)] + i) * sent_stride)] = element(own, peer, i);
    for (int i = 0; i < got.counts[index(peer)]; ++i)
      expected[index((got.places[index(peer)] + i) * received_stride)] = element(peer, own, i);
  }
  EXPECT_EQ(
      MPI_Alltoallv(sent.data.data(), sent.counts.data(), sent.places.data(), sent_type,
                    got.data.data(), got.counts.data(), got.places.data(), received_type, among),
      MPI_SUCCESS);
  EXPECT_EQ(got.data, expected);
  if (sent_stride != 1) MPI_Type_free(&sent_type);
  if (received_stride != 1) MPI_Type_free(&received_type);
}

/// Elements without gaps, with gaps in all ranks, and in some.
void exchange_all_ways(MPI_Comm among) {
  for (int salt = 0; salt < 3; ++salt) exchange(among, salt, 1, 1);
  exchange(among, 1, 2, 1);
  exchange(among, 2, 1, 3);
  exchange(among, 3, 2, 2);
  exchange(among, 4, rank_in(among) % 2 + 1, rank_in(among) % 3 + 1);
}

TEST(CommunicatorMeeting, PartsOfDifferentSizesReachAllMembers) {
  run_worlds([] {
    exchange_all_ways(MPI_COMM_WORLD);
    many_communicators all;
    all.for_each(exchange_all_ways);
  });
}

TEST(CommunicatorMeeting, LongPartsReachAllMembersAtAnyAddress) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    auto const bytes_from = [](int from, int to) { return (from * 331 + to * 97) % 700; };
    std::vector<int> counts, places, got_counts, got_places;
    std::vector<unsigned char> sent{0}, expected{0};
    for (int peer = 0; peer < size; ++peer) {
      counts.push_back(bytes_from(own, peer));
      places.push_back(static_cast<int>(sent.size()));
      sent.insert(sent.end(), index(counts.back()), static_cast<unsigned char>(own * 3 + peer));
      got_counts.push_back(bytes_from(peer, own));
      got_places.push_back(static_cast<int>(expected.size()));
      expected.insert(expected.end(), index(got_counts.back()),
                      static_cast<unsigned char>(peer * 3 + own));
    }
    std::vector<unsigned char> got(expected.size());
    MPI_Alltoallv(sent.data(), counts.data(), places.data(), MPI_BYTE, got.data(),
                  got_counts.data(), got_places.data(), MPI_BYTE, MPI_COMM_WORLD);
    EXPECT_EQ(got, expected);
  });
}

TEST(CommunicatorMeeting, PartsInPlaceAreExchanged) {
  run_worlds([] {
    many_communicators all;
    all.for_each([&](MPI_Comm each) {
      int const own = rank_in(each), size = size_of(each);
      // In place, two ranks exchange as many elements in both directions.
      spread_parts parts{size, 1, [&](int to) { return (own + to) % 4; }};
      auto expected = parts.data;
      for (int peer = 0; peer < size; ++peer)
        for (int i = 0; i < parts.counts[index(peer)]; ++i) {
          std::size_t const place = index(parts.places[index(peer)] + i);
          parts.data[place] = element(own, peer, i);
          expected[place] = element(peer, own, i);
        }
      MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, parts.data.data(), parts.counts.data(),
                    parts.places.data(), MPI_INT, each);
      EXPECT_EQ(parts.data, expected);
    });
  });
}

TEST(CommunicatorMeeting, ALongerPartFillsWhatThereIsRoomForAndFails) {
  run_worlds([] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    int const own = rank_in(copy), size = size_of(copy);
    std::vector<int> const counts(index(size), 3);
    std::vector<int> places, sent(index(3 * size), own), room = counts;
    for (int i = 0; i < size; ++i) places.push_back(3 * i);
    bool const is_short = own == size - 1;
    if (is_short) room[0] = 2;
    std::vector<int> got(index(3 * size), -1);
    int const error = MPI_Alltoallv(sent.data(), counts.data(), places.data(), MPI_INT, got.data(),
                                    room.data(), places.data(), MPI_INT, copy);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    EXPECT_EQ(error_class, is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    EXPECT_EQ(got[1], 0);
    EXPECT_EQ(got[2], is_short ? -1 : 0);
    EXPECT_EQ(got.back(), size == 1 ? -1 : size - 1);
    std::vector<int> data(200, own == 0 ? 5 : 0);
    bool const is_shorter = own != 0 && is_short;
    MPI_Error_class(MPI_Bcast(data.data(), is_shorter ? 150 : 200, MPI_INT, 0, copy), &error_class);
    EXPECT_EQ(error_class, is_shorter ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    MPI_Error_class(MPI_Bcast(data.data(), is_shorter ? 3 : 4, MPI_INT, 0, copy), &error_class);
    EXPECT_EQ(error_class, is_shorter ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    MPI_Comm_free(&copy);
  });
}

/// Each rank is in two of the communicators, and ranks use them in different orders and at
/// different times.
TEST(CommunicatorMeeting, CommunicatorsThatOverlapDoNotDisturbEachOther) {
  run_everywhere(8, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm const pair = part_of(MPI_COMM_WORLD, own / 2, own);
    MPI_Comm const shifted = part_of(MPI_COMM_WORLD, (own + 1) % 8 / 2, -own);
    auto const use = [&](MPI_Comm among, int round) {
      int sum = 0, data[40];
      MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, among);
      EXPECT_EQ(sum, among == pair          ? own / 2 * 4 + 1
                     : own == 0 || own == 7 ? 7
                                            : (own + 1) / 2 * 4 - 1);
      for (int& value : data) value = rank_in(among) == round % 2 ? round : -1;
      MPI_Bcast(data, round % 3 == 0 ? 40 : 2, MPI_INT, round % 2, among);
      EXPECT_EQ(data[1], round);
      if (round % 4 == 0) MPI_Barrier(among);
    };
    for (int round = 0; round < 6; ++round) {
      // Ranks 2 and 3 begin with their pair, all others with the other communicator: no circle.
      bool const begins_with_pair = own == 2 || own == 3;
      use(begins_with_pair ? pair : shifted, round);
      use(begins_with_pair ? shifted : pair, round);
    }
    MPI_Comm of_two = pair, of_others = shifted;
    MPI_Comm_free(&of_two);
    MPI_Comm_free(&of_others);
  });
}

TEST(CommunicatorMeeting, ManyCommunicatorsOfEachRankAreFreed) {
  QUARRY_TEST_USES_FIBERS();
  constexpr int many = 100;
  auto const run = [](int kept) {
    return run_on_fibers(12, 3, [kept] {
      int const own = rank_in(MPI_COMM_WORLD);
      std::vector<MPI_Comm> made;
      for (int i = 0; i < many; ++i) {
        made.push_back(part_of(MPI_COMM_WORLD, own / (1 + i % 5), i % 2 == 0 ? own : -own));
        MPI_Barrier(made.back());
      }
      for (int i = 0; i < many; ++i) {
        int const one = 1;
        int sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[index(i)]);
        EXPECT_EQ(sum, size_of(made[index(i)]));
        if (i >= kept) MPI_Comm_free(&made[index(i)]);
      }
    });
  };
  auto const all_freed = run(0), some_kept = run(5);
  EXPECT_EQ(all_freed.failure, "");
  // Of the 5 communicators of each rank there are 12, 6, 4, 3 and 3.
  EXPECT_EQ(some_kept.allocations - all_freed.allocations, 28u);
}

TEST(CommunicatorMeeting, WithoutMemoryForAPlaceToMeetMembersExchangeMessages) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(6, 1, [] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    // As communicators are made, but without a place to meet.
    mpi::communicator* made = nullptr;
    if (own == 0) {
      made = mpi::new_communicator(6, 0, 6, mpi::new_contexts(), false);
      EXPECT_EQ(made->meeting, nullptr);
    }
    MPI_Bcast(&made, sizeof(made), MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Comm by_messages = MPI_COMM_NULL;
    EXPECT_NE(mpi::join(mpi::self(), made, static_cast<std::uint32_t>(own), MPI_ERRORS_ARE_FATAL,
                        &by_messages),
              nullptr);
    exchange_all_ways(by_messages);
    double const sent = operand(own, 0);
    double sum = 0;
    MPI_Allreduce(&sent, &sum, 1, MPI_DOUBLE, MPI_SUM, by_messages);
    EXPECT_EQ(sum, sum_of(size, 0));
    int data[40] = {};
    if (own == 3) data[39] = 7;
    MPI_Bcast(data, 40, MPI_INT, 3, by_messages);
    EXPECT_EQ(data[39], 7);
    MPI_Barrier(by_messages);
    MPI_Comm_free(&by_messages);
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

TEST(CommunicatorMeeting, MembersInDifferentOperationsAreDeadlocked) {
  QUARRY_TEST_USES_FIBERS();
  std::vector<std::function<void(MPI_Comm)>> const operations{
      [](MPI_Comm among) { MPI_Barrier(among); },
      [](MPI_Comm among) {
        int value = 0;
        MPI_Bcast(&value, 1, MPI_INT, 0, among);
      },
      [](MPI_Comm among) {
        int const value = 1;
        int sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, among);
      },
      [](MPI_Comm among) {
        int const value = 1;
        int values[7];
        MPI_Allgather(&value, 1, MPI_INT, values, 1, MPI_INT, among);
      }};
  for (std::size_t first = 0; first < operations.size(); ++first)
    for (std::size_t second = first + 1; second < operations.size(); ++second) {
      auto const result = run_on_fibers(7, 1, [&] {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Barrier(copy);
        operations[rank_in(copy) == 4 ? first : second](copy);
      });
      EXPECT_TRUE(result.is_deadlocked) << first << ", " << second;
    }
  auto const absent = run_on_fibers(5, 1, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank_in(copy) != 3) MPI_Barrier(copy);
  });
  EXPECT_TRUE(absent.is_deadlocked);
}

TEST(CommunicatorMeeting, AMemberThatWaitsServesSends) {
  run_everywhere(6, [] {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    std::vector<double> data(2000, 1.5), received(2000);
    MPI_Request request;
    if (rank_in(copy) == 4) MPI_Irecv(received.data(), 2000, MPI_DOUBLE, 0, 0, copy, &request);
    if (rank_in(copy) == 0) MPI_Ssend(data.data(), 2000, MPI_DOUBLE, 4, 0, copy);
    MPI_Barrier(copy);
    if (rank_in(copy) == 4) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(received, data);
    }
    MPI_Comm_free(&copy);
  });
}

}  // namespace communicator_meeting_test
}  // namespace quarry::test
