// SPDX-License-Identifier: Apache-2.0
// Interleaved arrays, allocated and freed by ranks that come together, alone, or along different
// paths.
#include "mpi/rank_arrays.hpp"

#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

extern "C" {
void* quarry_mpi_allocate_array(unsigned long count, unsigned long size, unsigned width,
                                unsigned is_clear, unsigned long* distance);
void quarry_mpi_free_array(void* first, unsigned long distance, unsigned width);
}

namespace quarry::test {
namespace rank_arrays_test {

/// An array of a rank, with a pattern that tells its owner.
struct owned {
  unsigned char* first = nullptr;
  unsigned long distance = 0;
  unsigned width = 0;
  std::uint64_t count = 0;
  unsigned char pattern = 0;

  void fill() const {
    for (std::uint64_t i = 0; i < count; ++i) std::memset(first + i * distance, pattern, width);
  }
  [[nodiscard]] bool is_whole() const {
    for (std::uint64_t i = 0; i < count; ++i)
      for (unsigned byte = 0; byte < width; ++byte)
        if (first[i * distance + byte] != pattern) return false;
    return true;
  }
};

owned allocate(std::uint64_t count, unsigned width, bool is_clear = false) {
  owned made{.width = width, .count = count};
  made.first = static_cast<unsigned char*>(
      quarry_mpi_allocate_array(count, width, width, is_clear ? 1 : 0, &made.distance));
  EXPECT_EQ(made.distance % width, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.first) % width, 0u);
  return made;
}

void free(owned const& array) { quarry_mpi_free_array(array.first, array.distance, array.width); }

/// Allocates and frees in an order that differs from rank to rank.
void use_randomly(int steps) {
  int const rank = rank_in(MPI_COMM_WORLD);
  std::mt19937 random{static_cast<unsigned>(rank / 3)};  // neighbours often call together
  std::vector<owned> live;
  for (int i = 0; i < steps; ++i) {
    if (live.size() < 8 && random() % 2 == 0) {
      unsigned const width = 1u << random() % 5;
      std::uint64_t const kind = random() % 8;  // an empty array is an allocation, too
      std::uint64_t const count = kind == 0 ? 0 : kind < 3 ? 50 : random() % 700;
      bool const is_clear = random() % 3 == 0;
      owned const made = allocate(count, width, is_clear);
      ASSERT_NE(made.first, nullptr);
      EXPECT_TRUE(!is_clear || made.is_whole());
      live.push_back(made);
      live.back().pattern = static_cast<unsigned char>(16 * rank + i);
      live.back().fill();
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(live.back().is_whole());
      if (rank % 3 == 1)
        MPI_Sendrecv(&i, 1, MPI_INT, rank, 0, &i, 1, MPI_INT, rank, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
      free(live.back());
      live.pop_back();
    }
  }
  for (auto const& each : live) {
    EXPECT_TRUE(each.is_whole());
    free(each);
  }
}

TEST(RankArrays, NeighboursNeverShareBytes) {
  run_everywhere(8, [] { use_randomly(100); });
}

TEST(RankArrays, AllMemoryIsFreeInTheEnd) {
  QUARRY_TEST_USES_FIBERS();
  auto const after = [](int steps) { return run_on_fibers(40, 5, [=] { use_randomly(steps); }); };
  EXPECT_EQ(after(200).allocations, after(0).allocations);
}

TEST(RankArrays, RanksThatCallTogetherShareRows) {
  QUARRY_TEST_USES_FIBERS();
  for (unsigned const width : {1u, 4u, 8u, 16u}) {
    unsigned adjacent = 0;  // those that happened to call together; in some orders only a few do
    for (std::uint64_t seed = 1; seed <= 20 && adjacent <= 1; ++seed) {
      std::array<owned, 32> arrays{};
      auto const result = run_on_fibers(32, seed, [&] {
        auto const rank = static_cast<std::size_t>(rank_in(MPI_COMM_WORLD));
        MPI_Barrier(MPI_COMM_WORLD);
        arrays[rank] = allocate(100, width);
        arrays[rank].pattern = static_cast<unsigned char>(rank);
        arrays[rank].fill();
        MPI_Barrier(MPI_COMM_WORLD);
        EXPECT_TRUE(arrays[rank].is_whole());
        if (rank % 2 == 0) free(arrays[rank]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank % 2 == 0) return;
        EXPECT_TRUE(arrays[rank].is_whole());  // what others freed changes nothing
        free(arrays[rank]);
      });
      EXPECT_EQ(result.failure, "");
      for (std::size_t i = 1; i < arrays.size(); ++i)
        adjacent +=
            arrays[i].distance > width && arrays[i].first - arrays[i - 1].first == width ? 1 : 0;
    }
    EXPECT_GT(adjacent, 1u) << width;
  }
}

TEST(RankArrays, ADoubleFreeIsReportedAndChangesNothing) {
  QUARRY_TEST_USES_FIBERS();
  std::atomic<std::uint64_t> freed_twice{0};
  std::array<unsigned char*, 32> begins{};
  auto const result = run_on_fibers(32, 3, [&] {
    int const rank = rank_in(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    owned array = allocate(100, 8);
    array.pattern = static_cast<unsigned char>(rank);
    array.fill();
    begins[static_cast<std::size_t>(rank)] = array.first;
    MPI_Barrier(MPI_COMM_WORLD);
    // a rank that frees once has a place in the same rows: otherwise all their ranks might have
    // freed them, and a second free would be one of the heap's memory
    bool is_shared = false;
    for (int other = 0; other < 32; ++other) {
      auto const apart = std::abs(begins[static_cast<std::size_t>(other)] - array.first);
      is_shared |= other % 4 != 0 && static_cast<unsigned long>(apart) < array.distance;
    }
    bool const frees_twice = rank % 4 == 0 && is_shared;
    if (frees_twice) {
      free(array);
      free(array);
      ++freed_twice;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(frees_twice || array.is_whole());
    if (!frees_twice) free(array);
  });
  EXPECT_GT(freed_twice, 0u);
  EXPECT_EQ(result.wrong_frees, freed_twice);
}

TEST(RankArrays, LargeArraysAreContiguous) {
  run_everywhere(4, [] {
    owned const large = allocate(mpi::max_interleaved / 8 + 1, 8);
    EXPECT_EQ(large.distance, 8u);
    free(large);
  });
}

TEST(RankArrays, AFullHeapGivesContiguousArraysAndThenNull) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      8, 2,
      [] {
        std::vector<owned> all;
        for (;;) {
          mpi::self().error_number = 0;
          owned const made = allocate(4000, 8);
          if (made.first == nullptr) break;
          all.push_back(made);
          ASSERT_LT(all.size(), 200u);
        }
        EXPECT_EQ(mpi::self().error_number, 12);  // ENOMEM
        unsigned long distance = 0;
        EXPECT_EQ(quarry_mpi_allocate_array(1ul << 40, 1ul << 40, 8, 1, &distance), nullptr);
        EXPECT_EQ(quarry_mpi_allocate_array(1, ~0ul, 8, 0, &distance), nullptr);
        EXPECT_EQ(distance, 8u);
        quarry_mpi_free_array(nullptr, 8, 8);
        for (auto const& each : all) free(each);
      },
      std::uint64_t{2} << 20);
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.is_deadlocked);
}

}  // namespace rank_arrays_test
}  // namespace quarry::test
