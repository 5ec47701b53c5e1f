// SPDX-License-Identifier: Apache-2.0
// Barriers, broadcasts and reductions of all ranks on small data (mpi/meeting.hpp).
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace quarry::test {
namespace meeting_test {

int rank_of_world() { return rank_in(MPI_COMM_WORLD); }
int size_of_world() { return size_of(MPI_COMM_WORLD); }

TEST(Meeting, ABarrierOrdersWhatRanksWrite) {
  for (std::uint32_t const ranks : {1u, 3u, 4u, 6u}) {
    std::vector<int> written(ranks);
    run_everywhere(ranks, [&] {
      auto const own = static_cast<std::size_t>(rank_of_world());
      for (int round = 1; round <= 10; ++round) {
        written[own] = round;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int const value : written) EXPECT_EQ(value, round);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    });
  }
}

/// An allreduce by messages: nonblocking operations do not meet.
template <class T>
void reduce_by_messages(T const* values, T* results, int count, MPI_Datatype type, MPI_Op op) {
  MPI_Request request;
  MPI_Iallreduce(values, results, count, type, op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

template <class T>
void expect_same_results(MPI_Datatype type, std::vector<MPI_Op> const& ops) {
  for (MPI_Op const op : ops) {
    T const own = static_cast<T>(1.0 / (rank_of_world() * 7 % 5 + 1) * 1000);
    T expected{}, result{}, reduced{};
    reduce_by_messages(&own, &expected, 1, type, op);
    MPI_Allreduce(&own, &result, 1, type, op, MPI_COMM_WORLD);
    EXPECT_EQ(std::memcmp(&result, &expected, sizeof(T)), 0);
    int const root = size_of_world() / 2;
    MPI_Reduce(&own, &reduced, 1, type, op, root, MPI_COMM_WORLD);
    T const wanted = rank_of_world() == root ? expected : T{};
    EXPECT_EQ(std::memcmp(&reduced, &wanted, sizeof(T)), 0);
    T in_place = own;
    MPI_Allreduce(MPI_IN_PLACE, &in_place, 1, type, op, MPI_COMM_WORLD);
    EXPECT_EQ(std::memcmp(&in_place, &expected, sizeof(T)), 0);
  }
}

TEST(Meeting, ReductionsHaveEveryBitOfReductionsByMessages) {
  run_in_worlds([] {
    std::vector<MPI_Op> const of_all{MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};
    expect_same_results<int>(MPI_INT, {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_BXOR, MPI_LAND});
    expect_same_results<unsigned>(MPI_UNSIGNED, of_all);
    expect_same_results<long>(MPI_LONG, of_all);
    expect_same_results<unsigned long>(MPI_UNSIGNED_LONG, of_all);
    expect_same_results<float>(MPI_FLOAT, of_all);
    expect_same_results<double>(MPI_DOUBLE, of_all);
    expect_same_results<short>(MPI_SHORT, of_all);
  });
}

TEST(Meeting, ReductionsOfManyBlocksHaveEveryBitOfReductionsByMessages) {
  run_everywhere(70, [] { expect_same_results<double>(MPI_DOUBLE, {MPI_SUM, MPI_MAX}); });
}

constexpr int most_numbers = 33;  // one more than can meet

template <class T>
void expect_same_results(int count, MPI_Datatype type, MPI_Op op) {
  T own[most_numbers], expected[most_numbers] = {}, result[most_numbers] = {};
  for (int i = 0; i < most_numbers; ++i)
    own[i] = static_cast<T>(1000.0 / (rank_of_world() * 7 % 13 + i + 1));
  reduce_by_messages(own, expected, count, type, op);
  MPI_Allreduce(own, result, count, type, op, MPI_COMM_WORLD);
  EXPECT_EQ(std::memcmp(result, expected, sizeof(result)), 0) << count;
  T reduced[most_numbers] = {}, unchanged[most_numbers] = {};
  int const root = size_of_world() - 1;
  MPI_Reduce(own, reduced, count, type, op, root, MPI_COMM_WORLD);
  T const* const wanted = rank_of_world() == root ? expected : unchanged;
  EXPECT_EQ(std::memcmp(reduced, wanted, sizeof(reduced)), 0) << count;
  MPI_Allreduce(MPI_IN_PLACE, own, count, type, op, MPI_COMM_WORLD);
  EXPECT_EQ(std::memcmp(own, expected, static_cast<std::size_t>(count) * sizeof(T)), 0) << count;
}

TEST(Meeting, ReductionsOfSeveralNumbersHaveEveryBitOfReductionsByMessages) {
  run_in_worlds([] {
    for (int const count : {0, 2, 3, 8, 9, 32, most_numbers}) {
      expect_same_results<double>(count, MPI_DOUBLE, MPI_SUM);
      expect_same_results<int>(count, MPI_INT, MPI_MAX);
    }
  });
}

TEST(Meeting, ReductionsOfMoreNumbersThanMeetAtOnceHaveEveryBitToo) {
  QUARRY_TEST_USES_FIBERS();
  auto const reduce = [] {
    for (int const count : {2, 3, 4, 5, 12, 13}) {
      expect_same_results<double>(count, MPI_DOUBLE, MPI_SUM);
      expect_same_results<float>(count, MPI_FLOAT, MPI_MIN);
    }
  };
  begin_with_blocks_of(256);  // 4 numbers of each rank fill the slots of a block
  auto const of_full_blocks = run_on_fibers(300, 1, reduce);
  begin_with_blocks_of(1);  // 280 blocks: 3 numbers of each
  auto const of_many_blocks = run_on_fibers(280, 1, reduce);
  begin_with_blocks_of(default_block_ranks);
  for (program_result const& result : {of_full_blocks, of_many_blocks}) {
    EXPECT_FALSE(result.is_deadlocked);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.status, 0);
  }
}

TEST(Meeting, NumbersMayLieAtAnyAddress) {
  run_everywhere(5, [] {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      char own[16], result[16];
      double const value = rank_of_world() + 0.5;
      std::memcpy(own + offset, &value, sizeof(value));
      MPI_Allreduce(own + offset, result + offset, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      double sum = 0;
      std::memcpy(&sum, result + offset, sizeof(sum));
      EXPECT_EQ(sum, 12.5);
    }
  });
}

TEST(Meeting, BroadcastsCopyEveryByte) {
  run_everywhere(5, [] {
    for (int const size : {0, 1, 7, 63, 64, 65, 200, 1023, 1024, 1025})
      for (int root = 0; root < 5; ++root) {
        // Ranks whose data are multiples of 8 take another path than the others.
        std::size_t const offset = (rank_of_world() + root) % 3 == 0 ? 1 : 8;
        std::vector<unsigned char> expected(1100, 0xee);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
          expected[offset + i] = static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(root));
        std::vector<unsigned char> data(1100, 0xee);
        if (rank_of_world() == root) data = expected;
        MPI_Bcast(data.data() + offset, size, MPI_BYTE, root, MPI_COMM_WORLD);
        EXPECT_EQ(data, expected) << size;
      }
  });
}

TEST(Meeting, ABroadcastMayHaveDifferentTypesOfManyNumbers) {
  run_everywhere(5, [] {
    MPI_Datatype column;
    MPI_Type_vector(100, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int root = 0; root < 5; ++root) {
      std::vector<int> data(200, -1);
      bool const is_root = rank_of_world() == root, is_even = (rank_of_world() + root) % 2 == 0;
      std::size_t const step = is_even ? 2 : 1;
      for (std::size_t i = 0; is_root && i < 100; ++i) data[i * step] = root + static_cast<int>(i);
      MPI_Bcast(data.data(), is_even ? 1 : 100, is_even ? column : MPI_INT, root, MPI_COMM_WORLD);
      for (std::size_t i = 0; i < 100; ++i)
        EXPECT_EQ(data[i * step], root + static_cast<int>(i)) << i;
      EXPECT_EQ(data[is_even ? 1 : 100], -1);
    }
    MPI_Type_free(&column);
  });
}

TEST(Meeting, ABroadcastMayHaveDifferentTypesOfTheSameNumbers) {
  run_everywhere(5, [] {
    MPI_Datatype column;
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int root = 0; root < 5; ++root) {
      int data[6] = {-1, -1, -1, -1, -1, -1};
      bool const is_root = rank_of_world() == root;
      if (is_root) data[0] = root, data[2] = root + 1, data[4] = root + 2;
      MPI_Bcast(data, is_root ? 1 : 3, is_root ? column : MPI_INT, root, MPI_COMM_WORLD);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(data[is_root ? 2 * i : i], root + i);
    }
    MPI_Type_free(&column);
  });
}

/// Operations of several kinds, each of which depends on the one before.
void alternate(int rounds) {
  int const own = rank_of_world(), size = size_of_world();
  int number = 1;
  for (int round = 0; round < rounds; ++round) {
    int sum = 0, copy = own == round % size ? number : -1;
    MPI_Bcast(&copy, 1, MPI_INT, round % size, MPI_COMM_WORLD);
    EXPECT_EQ(copy, number);
    int const part = copy + own;
    MPI_Allreduce(&part, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, size * number + size * (size - 1) / 2);
    int parts[3] = {own, number, 1}, sums[3];
    MPI_Allreduce(parts, sums, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sums[1], size * number);
    int most = -1;
    MPI_Reduce(&own, &most, 1, MPI_INT, MPI_MAX, round % size, MPI_COMM_WORLD);
    if (own == round % size) {
      EXPECT_EQ(most, size - 1);
    }
    if (round % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
    number = (number * 3 + 1) % 1000;
  }
}

TEST(Meeting, OperationsOfDifferentKindsFollowEachOther) {
  run_in_worlds([] { alternate(20); });
}

TEST(Meeting, NumbersOfMeetingsWrap) {
  for (std::uint64_t const complete : {0xfffffff0u, 0xffffffffu, 0x7ffffff8u}) {
    begin_with_meetings(complete);
    run_everywhere(7, [] { alternate(8); });
  }
  begin_with_meetings(0);
}

TEST(Meeting, RanksInDifferentOperationsAreDeadlocked) {
  QUARRY_TEST_USES_FIBERS();
  // The ranks never return from these operations, so no operation may own memory.
  std::vector<std::function<void()>> const operations{
      [] { MPI_Barrier(MPI_COMM_WORLD); },
      [] {
        int value = 0;
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
      },
      [] {
        int const value = 1;
        int sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      },
      [] {
        int const values[2] = {};
        int sums[2];
        MPI_Allreduce(values, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      },
      [] {
        int const values[3] = {};
        int sums[3];
        MPI_Allreduce(values, sums, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      },
      [] {
        int const values[3] = {};
        int sums[3];
        MPI_Reduce(values, sums, 3, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
      },
      [] {
        int const values[most_numbers] = {};
        int sums[most_numbers];
        MPI_Allreduce(values, sums, most_numbers, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      },
      [] {
        int const value = 1;
        int sum = 0;
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
      },
      [] {  // here and in the next operation, ranks read each other's memory between two meetings
        int values[2000] = {};
        MPI_Bcast(values, 2000, MPI_INT, 0, MPI_COMM_WORLD);
      },
      [] {
        int const sent[7] = {};
        int received[7];
        MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
      }};
  for (std::size_t first = 0; first < operations.size(); ++first)
    for (std::size_t second = first + 1; second < operations.size(); ++second)
      for (int const different : {0, 2, 6}) {
        auto const result = run_on_fibers(7, 1, [&] {
          MPI_Barrier(MPI_COMM_WORLD);
          operations[rank_of_world() == different ? first : second]();
        });
        EXPECT_TRUE(result.is_deadlocked) << first << ", " << second << ", " << different;
      }
}

TEST(Meeting, ARankThatWaitsServesSends) {
  run_everywhere(6, [] {
    std::vector<double> data(2000, 1.5), received(2000);
    MPI_Request request;
    if (rank_of_world() == 4)
      MPI_Irecv(received.data(), 2000, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
    // Rank 0 is in its send until rank 4, which waits in the barrier, has received.
    if (rank_of_world() == 0) MPI_Ssend(data.data(), 2000, MPI_DOUBLE, 4, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_of_world() != 4) return;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(received, data);
  });
}

}  // namespace meeting_test
}  // namespace quarry::test
