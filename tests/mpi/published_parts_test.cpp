// SPDX-License-Identifier: Apache-2.0
// MPI_Alltoallv and MPI_Alltoallw: ranks read their parts of each other's buffers
// (mpi/published_parts.hpp), or exchange messages.
#include "mpi/support/communicators.hpp"

#include "mpi/collective_calls.hpp"
#include "mpi/communicator_objects.hpp"
#include "mpi/published_parts.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace quarry::test {
namespace published_parts_test {

using namespace communicators;

int element(int from, int to, int i) { return from * 1000 + to * 10 + i; }
/// How many elements a rank sends to another one: often none, and often different numbers.
int count_of(int from, int to, int salt) { return (from * 5 + to * 3 + salt) % 7 % 5; }

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

TEST(PublishedParts, PartsOfDifferentSizesReachAllMembers) {
  run_worlds([] {
    exchange_all_ways(MPI_COMM_WORLD);
    many_communicators all;
    all.for_each(exchange_all_ways);
  });
}

/// Parts of different types, each with a counted int in one, two or three, for MPI_Alltoallw.
struct typed_parts {
  typed_parts(int own, int size, std::function<int(int)> const& count_for) {
    int next = 1;
    for (int k = 0; k < size; ++k) {
      int const peer = (k + own) % size, stride = 1 + (own + peer) % 3;
      MPI_Datatype made = MPI_INT;
      if (stride != 1) {
        MPI_Type_create_resized(MPI_INT, 0, stride * static_cast<int>(sizeof(int)), &made);
        MPI_Type_commit(&made);
      }
      counts[index(peer)] = count_for(peer);
      types[index(peer)] = made;
      strides[index(peer)] = stride;
      places[index(peer)] = next * static_cast<int>(sizeof(int));
      next += count_for(peer) * stride;
    }
    data.assign(index(next), -1);
  }
  ~typed_parts() {
    for (MPI_Datatype& each : types)
      if (each != MPI_INT && each != MPI_DATATYPE_NULL) MPI_Type_free(&each);
  }
  typed_parts(typed_parts const&) = delete;
  [[nodiscard]] std::size_t at(int peer, int i) const {
    return index(places[index(peer)] / static_cast<int>(sizeof(int)) + i * strides[index(peer)]);
  }

  static constexpr std::size_t most = 80;
  std::vector<int> counts = std::vector<int>(most), places = counts, strides = counts, data;
  std::vector<MPI_Datatype> types = std::vector<MPI_Datatype>(most, MPI_DATATYPE_NULL);
};

void exchange_types(MPI_Comm among) {
  int const own = rank_in(among), size = size_of(among);
  typed_parts sent{own, size, [&](int to) { return count_of(own, to, 1); }};
  typed_parts got{own + 1, size, [&](int from) { return count_of(from, own, 1); }};
  auto expected = got.data;
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < sent.counts[index(peer)]; ++i)
      sent.data[sent.at(peer, i)] = element(own, peer, i);
    for (int i = 0; i < got.counts[index(peer)]; ++i)
      expected[got.at(peer, i)] = element(peer, own, i);
  }
  EXPECT_EQ(
      MPI_Alltoallw(sent.data.data(), sent.counts.data(), sent.places.data(), sent.types.data(),
                    got.data.data(), got.counts.data(), got.places.data(), got.types.data(), among),
      MPI_SUCCESS);
  EXPECT_EQ(got.data, expected);
  // As for a buffer that others cannot read.
  mpi::rank_state& rank = mpi::self();
  mpi::membership& at = *mpi::member(rank, among);
  if (!mpi::meets(at)) return;
  mpi::collective const of{rank, at, mpi::call::shared_alltoallw};
  mpi::published_parts const copied{
      of, mpi::parts(sent.data.data(), sent.counts.data(), sent.places.data(), sent.types.data()),
      true};
  for (int peer = 0; peer < size; ++peer) {
    int const count = got.counts[index(peer)];
    std::vector<int> part(index(count), -1);
    copied.read(static_cast<std::uint32_t>(peer), {rank, part.data(), MPI_INT},
                index(count) * sizeof(int));
    for (int i = 0; i < count; ++i) EXPECT_EQ(part[index(i)], element(peer, own, i));
  }
}

TEST(PublishedParts, PartsOfDifferentTypesReachAllMembers) {
  run_worlds([] {
    exchange_types(MPI_COMM_WORLD);
    many_communicators all;
    all.for_each(exchange_types);
  });
}

TEST(PublishedParts, WrongPartsOfDifferentTypesAreRefused) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(3, 1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int const places[3] = {}, counts[3] = {1, 1, 1}, negative[3] = {1, -1, 1};
    MPI_Datatype const types[3] = {MPI_INT, MPI_INT, MPI_INT}, wrong[3] = {MPI_INT, 12345, MPI_INT};
    int sent[3] = {}, received[3] = {}, error_class = 0;
    MPI_Error_class(MPI_Alltoallw(sent, negative, places, types, received, counts, places, types,
                                  MPI_COMM_WORLD),
                    &error_class);
    EXPECT_EQ(error_class, MPI_ERR_COUNT);
    MPI_Error_class(
        MPI_Alltoallw(sent, counts, places, types, received, counts, places, wrong, MPI_COMM_WORLD),
        &error_class);
    EXPECT_EQ(error_class, MPI_ERR_TYPE);
  });
  EXPECT_EQ(result.failure, "");
}

TEST(PublishedParts, LongPartsReachAllMembersAtAnyAddress) {
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

TEST(PublishedParts, PartsInPlaceAreExchanged) {
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

TEST(PublishedParts, ALongerPartFillsWhatThereIsRoomForAndFails) {
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

TEST(PublishedParts, WithoutMemoryForAPlaceToMeetMembersExchangeMessages) {
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
    double const sent = own + 0.5;
    double sum = 0;
    MPI_Allreduce(&sent, &sum, 1, MPI_DOUBLE, MPI_SUM, by_messages);
    EXPECT_EQ(sum, size * size / 2.0);
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

}  // namespace published_parts_test
}  // namespace quarry::test
