// SPDX-License-Identifier: Apache-2.0
// The bytes of buffers against a set of all their bytes.
#include "mpi/support/type_model.hpp"

#include "mpi/used_bytes.hpp"

#include <gtest/gtest.h>

#include <set>

namespace quarry::test {
namespace used_bytes_test {

/// Elements of a random type in a memory of 1 MiB.
struct random_buffer {
  static constexpr long middle = 1 << 19;

  random_buffer(random_types& numbers, std::vector<char>& memory)
      : model{numbers.make(1 + numbers.below(4))},
        count{1 + numbers.below(3)},
        place{middle + numbers.below(400)} {
    MPI_Type_commit(&model.type);
    used = mpi::elements_in(mpi::self(), memory.data() + place, static_cast<mpi::bytes>(count),
                            model.type);
    for (auto const& each : model.elements(count))
      for (int i = 0; i < each.size; ++i) bytes.insert(place + each.place + i);
  }

  type_model model;
  int count;
  long place;
  mpi::used_elements used;
  std::set<long> bytes;
};

TEST(UsedBytes, BuffersHaveACommonByteIfTheirSetsOfBytesHave) {
  auto const result = run_on_threads(1, [] {
    std::vector<char> memory(1 << 20);
    int apart = 0, common = 0;
    for (int seed = 1; seed <= 4000; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      random_types numbers{static_cast<std::uint64_t>(seed)};
      random_buffer const left{numbers, memory}, right{numbers, memory};
      bool expected = false;
      for (long const byte : left.bytes) expected = expected || right.bytes.count(byte) != 0;
      (expected ? common : apart)++;
      EXPECT_EQ(mpi::have_common_byte(mpi::self(), left.used, right.used), expected);
      EXPECT_EQ(mpi::have_common_byte(mpi::self(), right.used, left.used), expected);
      random_types::release(left.model);
      random_types::release(right.model);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(apart, 1000);
    EXPECT_GT(common, 500);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(UsedBytes, PartsHaveACommonByteIfASetOfTheirBytesHasFewer) {
  auto const result = run_on_threads(1, [] {
    std::vector<char> memory(1 << 20);
    int apart = 0, common = 0;
    for (int seed = 1; seed <= 2000; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      random_types numbers{static_cast<std::uint64_t>(seed)};
      std::vector<random_buffer> buffers;
      std::vector<mpi::used_elements> parts;
      std::set<long> bytes;
      std::size_t sum = 0;
      for (int i = numbers.below(4); i >= 0; --i) {
        random_buffer const& buffer = buffers.emplace_back(numbers, memory);
        if (overlaps(buffer.model.elements(buffer.count))) continue;
        parts.push_back(buffer.used);
        bytes.insert(buffer.bytes.begin(), buffer.bytes.end());
        for (auto const& each : buffer.model.elements(buffer.count))
          sum += static_cast<std::size_t>(each.size);
      }
      bool const expected = bytes.size() < sum;
      (expected ? common : apart)++;
      EXPECT_EQ(mpi::have_common_byte(mpi::self(), parts.data(), parts.size()), expected);
      for (random_buffer const& each : buffers) random_types::release(each.model);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(apart, 300);
    EXPECT_GT(common, 300);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(UsedBytes, OnlyTheBytesOfElementsChangeTheHash) {
  auto const result = run_on_threads(1, [] {
    std::vector<char> memory(1 << 20);
    for (int seed = 1; seed <= 1000; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      random_types numbers{static_cast<std::uint64_t>(seed)};
      random_buffer const buffer{numbers, memory};
      auto const hash = [&] { return mpi::hash_of(mpi::self(), buffer.used, 1); };
      std::uint64_t const before = hash();
      if (!buffer.bytes.empty()) {
        long const first = *buffer.bytes.begin(), last = *buffer.bytes.rbegin();
        long const changed = first - 1 + numbers.below(static_cast<int>(last - first) + 3);
        ++memory[static_cast<std::size_t>(changed)];
        EXPECT_EQ(hash() != before, buffer.bytes.count(changed) != 0);
      }
      random_types::release(buffer.model);
      if (testing::Test::HasFailure()) return;
    }
  });
  EXPECT_EQ(result.status, 0);
}

/// Columns of a matrix of 2,048 rows: their spans overlap, and have 2,048 blocks each.
TEST(UsedBytes, ColumnsBesideEachOtherHaveNoCommonByte) {
  auto const result = run_on_threads(1, [] {
    constexpr int rows = 2048, columns = 64;
    std::vector<int> matrix(std::size_t{rows} * columns);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, columns, MPI_INT, &column);
    MPI_Type_commit(&column);
    auto const of = [&](std::size_t i) {
      return mpi::elements_in(mpi::self(), &matrix[i], 1, column);
    };
    for (std::size_t i = 0; i < columns; ++i)
      EXPECT_EQ(mpi::have_common_byte(mpi::self(), of(i), of(20)), i == 20);
    MPI_Type_free(&column);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(UsedBytes, OfTypesThatAreNotCommittedThereAreNone) {
  auto const result = run_on_threads(1, [] {
    int value = 0;
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    EXPECT_EQ(mpi::elements_in(mpi::self(), &value, 1, pair).count, 0u);
    EXPECT_EQ(mpi::elements_in(mpi::self(), &value, 1, 12345678).count, 0u);
    EXPECT_EQ(mpi::elements_in(mpi::self(), nullptr, 1, MPI_INT).count, 0u);
    MPI_Type_free(&pair);
  });
  EXPECT_EQ(result.status, 0);
}

}  // namespace used_bytes_test
}  // namespace quarry::test
