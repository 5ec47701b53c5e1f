// SPDX-License-Identifier: Apache-2.0
// malloc and its family, called by ranks that come together, alone, or along different paths.
#include "mpi/rank_memory.hpp"
#include "mpi/c_layouts.hpp"

#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

extern "C" {
void* quarry_c_malloc(unsigned long size);
void* quarry_c_malloc_collective(unsigned long size);
void* quarry_c_calloc(unsigned long count, unsigned long size);
void* quarry_c_calloc_collective(unsigned long count, unsigned long size);
void* quarry_c_realloc(void* old, unsigned long size);
void* quarry_c_aligned_alloc(unsigned long alignment, unsigned long size);
int quarry_c_posix_memalign(void** result, unsigned long alignment, unsigned long size);
char* quarry_c_strdup(char const* text);
void quarry_c_free(void* pointer);
}

namespace quarry::test {
namespace rank_memory_test {

using text = unsigned char*;

void expect_aligned(void const* memory, std::uint64_t alignment = 16) {
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
}

/// Memory of a rank, with a pattern that tells its owner.
struct owned {
  text bytes;
  std::uint64_t size;
  unsigned char pattern;

  void fill() const { std::memset(bytes, pattern, size); }
  [[nodiscard]] bool is_whole() const {
    for (std::uint64_t i = 0; i < size; ++i)
      if (bytes[i] != pattern) return false;
    return true;
  }
};

/// Allocates, resizes and frees in an order that differs from rank to rank.
void use_randomly(int steps) {
  int const rank = rank_in(MPI_COMM_WORLD);
  std::mt19937 random{static_cast<unsigned>(rank / 2)};  // neighbours often call together
  std::vector<owned> live;
  auto const size = [&] { return std::uint64_t{random() % 3 == 0 ? 64 : random() % 3000}; };
  for (int i = 0; i < steps; ++i) {
    auto const own = static_cast<unsigned char>(16 * rank + i);
    if (live.size() < 8 && random() % 2 == 0) {
      bool const is_clear = random() % 4 == 0;
      std::uint64_t const wanted = size();
      auto* const memory =
          static_cast<text>(is_clear            ? quarry_c_calloc_collective(wanted, 1)
                            : random() % 2 == 0 ? quarry_c_malloc_collective(wanted)
                                                : quarry_c_malloc(wanted));
      expect_aligned(memory);
      EXPECT_TRUE(!is_clear || (owned{memory, wanted, 0}.is_whole()));
      live.push_back({memory, wanted, own});
      live.back().fill();
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(live.back().is_whole());
      if (random() % 3 == 0) {
        std::uint64_t const wanted = size();
        auto& last = live.back();
        last.bytes = static_cast<text>(quarry_c_realloc(last.bytes, wanted));
        expect_aligned(last.bytes);
        EXPECT_TRUE((owned{last.bytes, std::min(last.size, wanted), last.pattern}.is_whole()));
        last.size = wanted;
        last.fill();
      } else {
        quarry_c_free(live.back().bytes);
        live.pop_back();
      }
    }
  }
  for (auto const& each : live) {
    EXPECT_TRUE(each.is_whole());
    quarry_c_free(each.bytes);
  }
}

TEST(RankMemory, NeighboursNeverShareBytes) {
  run_everywhere(8, [] { use_randomly(100); });
}

TEST(RankMemory, AllOfItIsFreeInTheEnd) {
  QUARRY_TEST_USES_FIBERS();
  auto const after = [](int steps) { return run_on_fibers(40, 5, [=] { use_randomly(steps); }); };
  EXPECT_EQ(after(200).allocations, after(0).allocations);
}

TEST(RankMemory, AnotherRankMayFreeIt) {
  run_everywhere(6, [] {
    int const rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int i = 0; i < 20; ++i) {
      auto const wanted = static_cast<std::uint64_t>(1 + (rank * 37 + i * 11) % 500);
      owned const sent{static_cast<text>(quarry_c_malloc(wanted)), wanted,
                       static_cast<unsigned char>(rank)};
      sent.fill();
      owned got{};
      MPI_Sendrecv(&sent, sizeof(sent), MPI_BYTE, (rank + 1) % size, i, &got, sizeof(got), MPI_BYTE,
                   (rank + size - 1) % size, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EXPECT_TRUE(got.is_whole());
      quarry_c_free(got.bytes);
    }
  });
}

TEST(RankMemory, EverySizeIsAlignedTo16Bytes) {
  run_everywhere(5, [] {
    std::vector<void*> all;
    for (std::uint64_t size = 0; size < 70; ++size)
      all.push_back(quarry_c_malloc(size * static_cast<unsigned>(rank_in(MPI_COMM_WORLD) + 1)));
    for (void* each : all) {
      expect_aligned(each);
      quarry_c_free(each);
    }
  });
}

TEST(RankMemory, LargerAlignmentsAndCopiesOfTextAreFreedLikeOthers) {
  run_everywhere(3, [] {
    for (std::uint64_t alignment = 16; alignment <= 4096; alignment *= 2) {
      void* const first = quarry_c_aligned_alloc(alignment, 100);
      void* second = nullptr;
      EXPECT_EQ(quarry_c_posix_memalign(&second, alignment, 1), 0);
      char* const copy = quarry_c_strdup("a text of some length");
      EXPECT_STREQ(copy, "a text of some length");
      expect_aligned(first, alignment);
      expect_aligned(second, alignment);
      expect_aligned(copy);
      for (void* each : {first, second, static_cast<void*>(copy)}) quarry_c_free(each);
    }
  });
}

TEST(RankMemory, RequestsThatNoHeapCanServeAreNoRefusalsOfTheHeap) {
  run_everywhere(1, [] {
    EXPECT_EQ(quarry_c_aligned_alloc(3, 8), nullptr);
    EXPECT_EQ(mpi::self().error_number, mpi::error_invalid);
    EXPECT_EQ(quarry_c_calloc(~0ul / 2, 3), nullptr);
    EXPECT_EQ(mpi::self().error_number, mpi::error_no_memory);
    EXPECT_EQ(mpi::the_world().refusals, 0u);
    EXPECT_EQ(quarry_c_malloc(std::uint64_t{1} << 50), nullptr);
    EXPECT_EQ(mpi::the_world().refusals, 1u);
    EXPECT_EQ(mpi::the_world().refused->first_size, std::uint64_t{1} << 50);
  });
}

TEST(RankMemory, CollectiveCallsGiveAdjacentPartsOutsideTheSameBanks) {
  QUARRY_TEST_USES_FIBERS();
  // With sizes of a class, slices would lie at multiples of 64 bytes. Hardened heaps scatter
  // slices.
  std::uint64_t together = 0;
  for (std::uint64_t const size : {800, 1024, 1600, 4096}) {
    std::array<text, 32> parts{};
    auto const result = run_on_fibers(32, 3, [&] {
      auto const rank = static_cast<std::size_t>(rank_in(MPI_COMM_WORLD));
      MPI_Barrier(MPI_COMM_WORLD);
      auto* const part = static_cast<text>(quarry_c_malloc_collective(size));
      expect_aligned(part);
      parts[rank] = part;
      std::memset(part, static_cast<int>(rank), size);
      MPI_Barrier(MPI_COMM_WORLD);
      for (std::uint64_t i = 0; i < size; ++i) EXPECT_EQ(part[i], rank);
      // growth moves the part, and leaves those of the others
      auto* const grown = static_cast<text>(quarry_c_realloc(part, 2 * size));
      EXPECT_EQ(grown[size - 1], rank);
      quarry_c_free(grown);
    });
    EXPECT_EQ(result.allocations, run_on_fibers(32, 3, [] {}).allocations);
    std::uint64_t const padded = (size + 15) / 16 * 16;
    auto const distance = static_cast<std::int64_t>(padded % 64 == 0 ? padded + 16 : padded);
    for (std::size_t i = 1; i < parts.size(); ++i) together += parts[i] - parts[i - 1] == distance;
  }
  EXPECT_GT(together, 4u);  // those of 32 ranks that happened to call together, for all sizes
}

TEST(RankMemory, AFullHeapGivesNullAndSetsErrno) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      4, 2,
      [] {
        std::vector<void*> all;
        for (;;) {
          mpi::self().error_number = 0;
          void* const memory = quarry_c_malloc(3000 + 500 * unsigned(rank_in(MPI_COMM_WORLD)));
          if (memory == nullptr) break;
          all.push_back(memory);
          ASSERT_LT(all.size(), 2000u);
        }
        EXPECT_EQ(mpi::self().error_number, 12);  // ENOMEM
        EXPECT_GT(all.size(), 0u);
        EXPECT_EQ(quarry_c_malloc(~0ul), nullptr);
        EXPECT_EQ(quarry_c_calloc(1ul << 40, 1ul << 40), nullptr);
        EXPECT_EQ(quarry_c_realloc(all[0], 1ul << 40), nullptr);
        for (void* each : all) quarry_c_free(each);
      },
      std::uint64_t{1} << 20);
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.is_deadlocked);
}

}  // namespace rank_memory_test
}  // namespace quarry::test
