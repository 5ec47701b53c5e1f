// SPDX-License-Identifier: Apache-2.0
// Collective operations of the world whose ranks read each other's memory, in worlds in which lanes
// of a warp copy for each other, and with buffers at any address.
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/reduction_job.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace quarry::test {
namespace direct_collectives_test {

constexpr int most_gap = 16;

/// A buffer whose first byte lies a few bytes behind an aligned address.
struct shifted_buffer {
  shifted_buffer(std::size_t size, int shift) : memory(size + 2 * most_gap), start{at(shift)} {}
  [[nodiscard]] unsigned char* data() { return memory.data() + start; }
  /// Whether nobody has written beside the buffer's `size` bytes.
  [[nodiscard]] bool has_clean_edges(std::size_t size) const {
    for (std::size_t i = 0; i < memory.size(); ++i)
      if ((i < start || i >= start + size) && memory[i] != 0) return false;
    return true;
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  std::vector<unsigned char> memory;
  std::size_t start;
};

unsigned char byte_of(int rank, std::size_t i, int salt) {
  return static_cast<unsigned char>(static_cast<std::size_t>(rank) * 31 + i * 7 + i / 256 +
                                    static_cast<std::size_t>(salt) * 3 + 1);
}

void run_worlds(std::function<void()> const& body) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const ranks : {1u, 6u, 33u, 70u})
    for (std::uint64_t const seed : {1u, 2u}) {
      auto const result = run_on_fibers(ranks, seed, body);
      EXPECT_EQ(result.failure, "");
      EXPECT_EQ(result.status, 0);
      EXPECT_FALSE(result.is_deadlocked);
      EXPECT_EQ(result.wrong_frees, 0u);
    }
}

/// Shifts of some ranks are 0, 4 or 8, those of others anything.
int draw_shift(shared_random& random, int rank) {
  int const any = random.below(most_gap), kind = random.below(4);
  return kind == 0   ? 0
         : kind == 1 ? 8
         : kind == 2 ? 4 * ((any + rank) % 4)
                     : (any + rank) % most_gap;
}

/// A collective operation that sends messages, which match only if all ranks have counted the same
/// number of operations before.
void expect_scan() {
  int const one = 1;
  int sum = 0;
  MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, rank_in(MPI_COMM_WORLD) + 1);
}

TEST(DirectCollectives, BcastReachesBuffersAtAnyAddress) {
  run_worlds([] {
    shared_random random{3};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 12; ++round) {
      int const root = random.below(size), count = 65 + random.below(round < 6 ? 200 : 3000);
      auto const length = static_cast<std::size_t>(count);
      shifted_buffer buffer{length, draw_shift(random, own)};
      for (std::size_t i = 0; i < length; ++i)
        if (own == root) buffer.data()[i] = byte_of(root, i, round);
      // basic types may take a shorter way: in all ranks, in some, or in none
      if (round % 3 == 0 || (round % 3 == 1 && own % 3 != 0)) {
        MPI_Bcast(buffer.data(), count, MPI_BYTE, root, MPI_COMM_WORLD);
      } else {
        MPI_Datatype whole = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(count, MPI_BYTE, &whole);
        MPI_Type_commit(&whole);
        MPI_Bcast(buffer.data(), 1, whole, root, MPI_COMM_WORLD);
        MPI_Type_free(&whole);
      }
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < length; ++i) wrong += buffer.data()[i] != byte_of(root, i, round);
      EXPECT_EQ(wrong, 0u);
      EXPECT_TRUE(buffer.has_clean_edges(length));
    }
    expect_scan();
  });
}

TEST(DirectCollectives, ALongerBcastFillsWhatARankHasRoomForAndFails) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bool const is_short = own != 0 && own == size - 1;
    for (int const count : {10, 200, 2000}) {
      auto const all = static_cast<std::size_t>(count);
      std::vector<int> data(all, own == 0 ? 5 : 0);
      int const error =
          MPI_Bcast(data.data(), is_short ? count - 5 : count, MPI_INT, 0, MPI_COMM_WORLD);
      int error_class = MPI_SUCCESS;
      MPI_Error_class(error, &error_class);
      EXPECT_EQ(error_class, is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
      EXPECT_EQ(data[all - 6], 5);
      EXPECT_EQ(data[all - 5], is_short ? 0 : 5);
    }
  });
}

/// The value of a rank's element: sums of them depend on the order.
template <class T>
T operand(int rank, int index) {
  return static_cast<T>(1.0 / (1 + (rank * 7 + index * 3) % 97) *
                        ((rank + index) % 3 != 0 ? 1 : 1000));
}

/// The element by a binary tree over the ranks.
template <class T, class Combine>
T reduced(int size, int index, Combine const& combine) {
  std::vector<T> values;
  for (int rank = 0; rank < size; ++rank) values.push_back(operand<T>(rank, index));
  for (int reach = 1; reach < size; reach *= 2)
    for (int i = 0; i + reach < size; i += 2 * reach)
      values[static_cast<std::size_t>(i)] =
          combine(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(i + reach)]);
  return values[0];
}

/// Reduces elements of buffers at any address. `root`: of MPI_Reduce, or -1 for MPI_Allreduce.
template <class T, class Combine>
void check_reduction(MPI_Datatype type, MPI_Op op, int count, int root, bool is_in_place, int shift,
                     Combine const& combine) {
  int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  bool const has_result = root < 0 || root == own;
  auto const length = static_cast<std::size_t>(count) * sizeof(T);
  shifted_buffer sent{length, shift}, received{length, (shift * 5) % most_gap};
  auto const store = [&](shifted_buffer& to) {
    for (int i = 0; i < count; ++i) {
      T const value = operand<T>(own, i);
      std::memcpy(to.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  };
  bool const is_here = is_in_place && has_result;
  store(is_here ? received : sent);
  void const* const from = is_here ? MPI_IN_PLACE : sent.data();
  void* const to = has_result ? received.data() : nullptr;
  int const error = root < 0 ? MPI_Allreduce(from, to, count, type, op, MPI_COMM_WORLD)
                             : MPI_Reduce(from, to, count, type, op, root, MPI_COMM_WORLD);
  EXPECT_EQ(error, MPI_SUCCESS);
  EXPECT_TRUE(received.has_clean_edges(length));
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    T const expected = has_result ? reduced<T>(size, i, combine) : T{};
    wrong += std::memcmp(received.data() + static_cast<std::size_t>(i) * sizeof(T), &expected,
                         sizeof(T)) != 0;
    if (is_here) continue;
    T const kept = operand<T>(own, i);
    wrong +=
        std::memcmp(sent.data() + static_cast<std::size_t>(i) * sizeof(T), &kept, sizeof(T)) != 0;
  }
  EXPECT_EQ(wrong, 0);
}

void check_reductions(int count, int root, bool is_in_place, int shift) {
  auto const add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
  auto const multiply = [](auto a, auto b) { return static_cast<decltype(a)>(a * b); };
  auto const larger = [](auto a, auto b) { return a < b ? b : a; };
  check_reduction<double>(MPI_DOUBLE, MPI_SUM, count, root, is_in_place, shift, add);
  check_reduction<float>(MPI_FLOAT, MPI_PROD, count, root, is_in_place, shift, multiply);
  check_reduction<int>(MPI_INT, MPI_MAX, count, root, is_in_place, shift, larger);
  check_reduction<std::uint64_t>(MPI_UINT64_T, MPI_BXOR, count, root, is_in_place, shift,
                                 [](auto a, auto b) { return a ^ b; });
}

TEST(DirectCollectives, ReductionsHaveTheBitsOfABinaryTree) {
  run_worlds([] {
    shared_random random{7};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 4; ++round) {
      int const count = round == 0 ? 1 + random.below(9) : 33 + random.below(60);  // 32 meet
      int const root = random.below(2) == 0 ? -1 : random.below(size);
      bool const is_in_place = random.below(2) == 0;
      check_reductions(count, root, is_in_place, draw_shift(random, own));
    }
  });
}

TEST(DirectCollectives, RanksWhoseElementsAreNotAlignedReduceWithTheOthers) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD);
    auto const add = [](double a, double b) { return a + b; };
    for (int const count : {40, 200})
      for (bool const is_in_place : {false, true})
        for (int const shift : {0, own % 3 == 0 ? 4 : 0, 4, own % 2 == 0 ? 8 : 4})
          check_reduction<double>(MPI_DOUBLE, MPI_SUM, count, -1, is_in_place, shift, add);
    expect_scan();
  });
}

/// The first level of a reduction, as lanes of a GPU do it: each rank has the share of a lane.
template <class T, class Combine>
void check_shares(int count, int shift, mpi::small_reduction::number type, MPI_Op op,
                  Combine const& combine) {
  auto const own = static_cast<std::uint32_t>(rank_in(MPI_COMM_WORLD));
  auto const size = static_cast<std::uint32_t>(size_of(MPI_COMM_WORLD));
  std::vector<T> elements(static_cast<std::size_t>(count) + most_gap), result(elements.size());
  for (int i = 0; i < count; ++i)
    elements[static_cast<std::size_t>(i + shift)] = operand<T>(static_cast<int>(own), i);
  bytes const length = static_cast<bytes>(count) * sizeof(T);
  mpi::published_places const places = mpi::places_of_world();
  places[own].publish(reinterpret_cast<char const*>(elements.data() + shift), length,
                      reinterpret_cast<char*>(result.data() + shift));
  MPI_Barrier(MPI_COMM_WORLD);
  std::uint32_t const first = own / 32 * 32, ranks = std::min(size - first, 32u);
  mpi::run(mpi::reduction_job{places, first, 1, ranks, op, type, length},
           mpi::lane_share{own - first, ranks});
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; own == 0 && i < count; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i + shift)],
              reduced<T>(static_cast<int>(ranks), i, combine));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(DirectCollectives, LanesThatShareAReductionHaveTheBitsOfABinaryTree) {
  run_worlds([] {
    using number = mpi::small_reduction::number;
    auto const add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
    for (int const count : {1, 7, 65, 150})
      for (int const shift : {0, 1, 2}) {
        check_shares<double>(count, shift, number::real64, MPI_SUM, add);
        check_shares<float>(count, shift, number::real32, MPI_SUM, add);
        check_shares<std::int32_t>(count, shift, number::int32, MPI_MIN,
                                   [](auto a, auto b) { return b < a ? b : a; });
      }
  });
}

/// The lanes of a warp as the helpers of a rank.
struct helping_lanes {
  explicit helping_lanes(std::uint32_t lanes) {
    while (group.size() != lanes) {
      simt::block_barrier();
      group = simt::lane_group::coalesced<struct helper_site>();
    }
  }
  simt::lane_group group = simt::lane_group::alone();

  [[nodiscard]] std::uint32_t rank() const { return group.rank(); }
  [[nodiscard]] std::uint32_t size() const { return group.size(); }
  template <class T>
  [[nodiscard]] T of_rank(T value, std::uint32_t rank) const {
    return group.broadcast(value, group.leader() + rank);
  }
};

/// Reduces elements of `ranks` ranks by `workers` workers of `lanes` lanes, one after another.
template <class T, class Combine>
void check_teams(std::uint32_t lanes, std::uint32_t workers, int ranks, int count,
                 mpi::small_reduction::number type, MPI_Op op, Combine const& combine) {
  auto const length = static_cast<std::size_t>(count);
  std::vector<std::vector<T>> elements(static_cast<std::size_t>(ranks));
  std::vector<T> result(length + 1);
  std::vector<mpi::published_place> places(elements.size());
  for (int rank = 0; rank < ranks; ++rank) {
    auto& own = elements[static_cast<std::size_t>(rank)];
    for (int i = 0; i < count; ++i) own.push_back(operand<T>(rank, i));
    places[static_cast<std::size_t>(rank)].publish(reinterpret_cast<char const*>(own.data()),
                                                   length * sizeof(T),
                                                   reinterpret_cast<char*>(result.data()));
  }
  mpi::reduction_job const job{{reinterpret_cast<char*>(places.data())},
                               0,
                               1,
                               static_cast<std::uint32_t>(ranks),
                               op,
                               type,
                               length * sizeof(T)};
  for (std::uint32_t worker = 0; worker < workers; ++worker)
    simt::launch_fibers({1, lanes}, {.seed = worker + 1, .partial_groups = 0}, [&] {
      helping_lanes const helpers{lanes};
      mpi::team_reduction const teams{job, helpers, mpi::lane_share{worker, workers}};
      EXPECT_TRUE(teams.suits());
      teams.run();
    });
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], reduced<T>(ranks, i, combine));
  EXPECT_EQ(result[length], T{});
}

TEST(DirectCollectives, TeamsOfLanesHaveTheBitsOfABinaryTree) {
  QUARRY_TEST_USES_FIBERS();
  using number = mpi::small_reduction::number;
  auto const add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
  auto const smaller = [](auto a, auto b) { return b < a ? b : a; };  // zeros would count
  for (std::uint32_t const lanes : {8u, 15u, 31u, 32u})               // one to four teams
    for (int const ranks : {1, 3, 4, 5, 18, 31, 32})
      for (std::uint32_t const workers : {1u, 3u})
        for (int const count : {1, 3, 5}) {
          SCOPED_TRACE(std::to_string(lanes) + " lanes, " + std::to_string(ranks) + " ranks");
          check_teams<double>(lanes, workers, ranks, count, number::real64, MPI_SUM, add);
          check_teams<float>(lanes, workers, ranks, count, number::real32, MPI_SUM, add);
          check_teams<float>(lanes, workers, ranks, count, number::real32, MPI_MIN, smaller);
        }
}

TEST(DirectCollectives, AReductionOfManyElementsHasNoTeams) {
  QUARRY_TEST_USES_FIBERS();
  simt::launch_fibers({1, 31}, {.seed = 1, .partial_groups = 0}, [] {
    helping_lanes const helpers{31};
    auto const suits = [&](bytes elements) {
      mpi::reduction_job const job{
          {nullptr}, 0, 1, 32, MPI_SUM, mpi::small_reduction::number::real64, elements * 8};
      return mpi::team_reduction{job, helpers, mpi::lane_share{0, 32}}.suits();
    };
    EXPECT_TRUE(suits(480));  // five for each of three teams of 32 workers
    EXPECT_FALSE(suits(481));
  });
}

TEST(DirectCollectives, ReductionsOfMoreThanThousandRanksHaveThreeLevels) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(1061, 5, [] {
    auto const add = [](double a, double b) { return a + b; };
    check_reduction<double>(MPI_DOUBLE, MPI_SUM, 43, -1, false, 0, add);
    check_reduction<double>(MPI_DOUBLE, MPI_SUM, 37, 1060, true, 8, add);
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

TEST(DirectCollectives, FewNumbersOfManyRanksHaveTheBitsOfABinaryTreeInMeetings) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(4096, 5, [] {
    auto const add = [](double a, double b) { return a + b; };
    int const most_met = mpi::small_reduction::max_count;
    for (int const count : {most_met, most_met + 1})
      check_reduction<double>(MPI_DOUBLE, MPI_SUM, count, 7, false, 0, add);
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

TEST(DirectCollectives, ExchangesReachPartsAtAnyAddress) {
  run_worlds([] {
    shared_random random{11};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    auto const ranks = static_cast<std::size_t>(size);
    for (int round = 0; round < 24; ++round) {
      bool const is_gather = random.below(2) == 0, is_in_place = random.below(4) == 0;
      int const unit = 1 << random.below(5), units = 1 + random.below(9), count = unit * units;
      auto const part = static_cast<std::size_t>(count);
      bool const is_odd = random.below(3) == 0;
      int const shift = is_odd ? draw_shift(random, own) : unit % most_gap;
      std::size_t const own_bytes = is_gather ? part : part * ranks;
      shifted_buffer sent{own_bytes, shift}, received{part * ranks, shift};
      unsigned char* const place = !is_in_place ? sent.data()
                                   : is_gather
                                       ? received.data() + static_cast<std::size_t>(own) * part
                                       : received.data();
      for (std::size_t i = 0; i < own_bytes; ++i) place[i] = byte_of(own, i, round);
      void const* const from = is_in_place ? MPI_IN_PLACE : sent.data();
      // basic types may take a shorter way: in all ranks, in some, or in none
      int const ways = random.below(3);
      bool const is_basic = ways == 0 || (ways == 1 && own % 3 != 0);
      MPI_Datatype type = MPI_BYTE;
      if (!is_basic) {
        MPI_Type_contiguous(unit, MPI_BYTE, &type);
        MPI_Type_commit(&type);
      }
      int const elements = is_basic ? count : units;
      if (is_gather) {
        MPI_Allgather(from, elements, type, received.data(), elements, type, MPI_COMM_WORLD);
      } else {
        MPI_Alltoall(from, elements, type, received.data(), elements, type, MPI_COMM_WORLD);
      }
      if (!is_basic) MPI_Type_free(&type);
      std::size_t wrong = 0;
      for (int peer = 0; peer < size; ++peer)
        for (std::size_t i = 0; i < part; ++i) {
          std::size_t const index = is_gather ? i : static_cast<std::size_t>(own) * part + i;
          wrong += received.data()[static_cast<std::size_t>(peer) * part + i] !=
                   byte_of(peer, index, round);
        }
      EXPECT_EQ(wrong, 0u);
      EXPECT_TRUE(received.has_clean_edges(part * ranks));
    }
    expect_scan();
  });
}

TEST(DirectCollectives, PartsThatAreLongerThanARankExpectsFillItsRoomAndFail) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    auto const ranks = static_cast<std::size_t>(size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bool const is_short = size > 1 && own == size - 1;
    constexpr int most = 6;
    int const count = is_short ? most - 1 : most;
    std::vector<int> sent(ranks * most, own), received(ranks * most, -1);
    int const error =
        MPI_Alltoall(sent.data(), count, MPI_INT, received.data(), count, MPI_INT, MPI_COMM_WORLD);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    EXPECT_EQ(error_class, is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < count; ++i) {
        bool const has_sent = from != size - 1 || size == 1 || i < most - 1;
        EXPECT_EQ(received[static_cast<std::size_t>(from * count + i)], has_sent ? from : -1);
      }
  });
}

TEST(DirectCollectives, ARankThatSendsMoreThanItReceivesFails) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    auto const ranks = static_cast<std::size_t>(size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::vector<int> sent(ranks * 6, own), received(ranks * 5 + 1, -1);
    int const error =
        MPI_Alltoall(sent.data(), 6, MPI_INT, received.data(), 5, MPI_INT, MPI_COMM_WORLD);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    EXPECT_EQ(error_class, MPI_ERR_TRUNCATE);
    EXPECT_EQ(received.back(), -1);
  });
}

TEST(DirectCollectives, ALongBcastFromNoRankFails) {
  run_worlds([] {
    int const size = size_of(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::vector<int> data(2000);
    for (int const root : {size, -1})
      EXPECT_EQ(MPI_Bcast(data.data(), 2000, MPI_INT, root, MPI_COMM_WORLD), MPI_ERR_ROOT);
  });
}

TEST(DirectCollectives, AReductionOfMoreThanARankHasRoomForFails) {
  run_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bool const is_short = own != 0 && own == size - 1;
    std::vector<int> sent(100, 1), received(100, -1);
    int const error = MPI_Allreduce(sent.data(), received.data(), is_short ? 90 : 100, MPI_INT,
                                    MPI_SUM, MPI_COMM_WORLD);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    EXPECT_EQ(error_class, is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    EXPECT_TRUE(!is_short || received[90] == -1);
  });
}

}  // namespace direct_collectives_test
}  // namespace quarry::test
