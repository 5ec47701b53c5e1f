// SPDX-License-Identifier: Apache-2.0
// OS threads use a heap that is too small for them, so that memory is reused as slices, blocks,
// segments and large allocations. They write to it plainly: if a free does not happen before the
// next malloc, ThreadSanitizer reports a race.
#include "quarry/device/heap.hpp"
#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace quarry {
namespace heap_stress_test {

constexpr bytes segment_bytes = 64_KiB;
constexpr std::uint64_t seed = 20261121;

/// An allocation, and the number that its owner wrote into it.
struct holding {
  std::uint64_t* words = nullptr;
  std::uint32_t count = 0;
  std::uint64_t stamp = 0;
};

/// Writes to both ends of an allocation and to some words between them.
void write(holding const& own) {
  for (std::uint32_t i = 0; i < own.count; i += i < 16 ? 1 : 61) own.words[i] = own.stamp + i;
  own.words[own.count - 1] = own.stamp + own.count - 1;
}

[[nodiscard]] bool is_intact(holding const& own) {
  for (std::uint32_t i = 0; i < own.count; i += i < 16 ? 1 : 61) {
    if (own.words[i] != own.stamp + i) return false;
  }
  return own.words[own.count - 1] == own.stamp + own.count - 1;
}

/// One thread's work: allocates many allocations of one kind of size, frees all but a few, and
/// continues with another kind.
class worker {
 public:
  /// A place where threads leave allocations for other threads to free.
  using exchange_place = std::atomic<holding*>;

  worker(heap_ref heap, std::uint32_t id, std::vector<exchange_place>& places)
      : heap_{heap}, random_{seed + id}, id_{id}, places_{places} {}

  /// The kinds of sizes: slices of few classes, so that classes take memory from each other, and
  /// whole segments.
  enum class kind { small, medium, half, large, mixed };

  void round(kind sizes, std::uint32_t allocations) {
    for (std::uint32_t i = 0; i < allocations; ++i) {
      allocate(size_of(sizes));
      if (below(4) == 0) deallocate_one();
      if (!places_.empty() && below(32) == 0) swap_one();
    }
    while (held_.size() > 2) deallocate_one();
    if (below(4) == 0) deallocate_all();
  }

  void deallocate_all() {
    while (!held_.empty()) deallocate_one();
  }

  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }
  [[nodiscard]] std::uint64_t allocated() const { return allocated_; }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  bytes size_of(kind sizes) {
    switch (sizes) {
      case kind::small:
        return 16 + below(4) * 16;
      case kind::medium:
        return 512 + below(3) * 512;
      case kind::half:
        return 8_KiB + below(2) * 16_KiB;
      case kind::large:
        return (1 + below(2)) * segment_bytes;
      case kind::mixed:
        break;
    }
    return size_of(static_cast<kind>(below(4)));
  }

  void allocate(bytes size) {
    holding own;
    own.words = static_cast<std::uint64_t*>(heap_.malloc(size));
    if (own.words == nullptr) {
      deallocate_one();
      return;
    }
    own.count = static_cast<std::uint32_t>(size / sizeof(std::uint64_t));
    own.stamp = random_();
    write(own);
    held_.push_back(own);
    ++allocated_;
  }

  void deallocate_one() {
    if (held_.empty()) return;
    std::swap(held_[below(static_cast<std::uint32_t>(held_.size()))], held_.back());
    deallocate(held_.back());
    held_.pop_back();
  }

  void deallocate(holding const& own) {
    if (!is_intact(own)) ++damaged_;
    heap_.free(own.words);
  }

  /// Leaves an allocation for another thread, and frees an allocation that another thread left.
  void swap_one() {
    if (held_.empty()) return;
    auto* const offered = new holding{held_.back()};
    held_.pop_back();
    holding* const received =
        places_[(id_ + below(2)) % places_.size()].exchange(offered, std::memory_order_acq_rel);
    if (received == nullptr) return;
    deallocate(*received);
    delete received;
  }

  heap_ref heap_;
  std::mt19937_64 random_;
  std::uint32_t id_;
  std::vector<exchange_place>& places_;
  std::vector<holding> held_;
  std::uint64_t damaged_ = 0;
  std::uint64_t allocated_ = 0;
};

void expect_clean(heap const& memory) {
  for (auto const& problem : memory.audit()) ADD_FAILURE() << problem;
  EXPECT_EQ(memory.stats().allocations_in_use, 0u);
  for (auto kind = 2u; kind < static_cast<std::uint32_t>(fault_kind::count_); ++kind) {
    EXPECT_EQ(memory.fault_count(static_cast<fault_kind>(kind)), 0u)
        << name_of(static_cast<fault_kind>(kind));
  }
}

struct load {
  char const* name;
  bytes size;  ///< of the heap
  std::uint32_t threads;
  bool hands_over;
  std::vector<worker::kind> rounds;
  std::uint32_t allocations;  ///< that each thread tries in each round
  std::uint32_t repeats;
};

class HeapStress : public ::testing::TestWithParam<load> {};

/// ThreadSanitizer looks for a race that few rounds have. Elsewhere only damage can be seen, which
/// HeapStorm looks for, too.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t repeats_divisor = 1;
#else
constexpr std::uint32_t repeats_divisor = 4;
#endif

TEST_P(HeapStress, AFreeHappensBeforeTheNextMallocOfTheSameMemory) {
  load const& parameters = GetParam();
  std::cout << "  seed " << seed << '\n';
  heap memory{{.bytes = parameters.size,
               .segment_bytes = segment_bytes,
               .backend_kind = backend::cpu,
               .seed = seed}};
  std::vector<worker::exchange_place> places(parameters.hands_over ? parameters.threads : 0);
  std::atomic<std::uint64_t> damaged{0};
  std::atomic<std::uint64_t> allocated{0};
  simt::launch_threads({parameters.threads, 1}, parameters.threads, [&, heap = memory.ref()] {
    std::uint32_t const id = simt::this_place().block;
    worker own{heap, id, places};
    for (std::uint32_t repeat = 0; repeat < parameters.repeats / repeats_divisor; ++repeat) {
      for (std::size_t i = 0; i < parameters.rounds.size(); ++i)
        own.round(parameters.rounds[(i + id) % parameters.rounds.size()], parameters.allocations);
    }
    own.deallocate_all();
    damaged += own.damaged();
    allocated += own.allocated();
  });
  for (auto& place : places) {
    auto* const remaining = place.load();
    if (remaining == nullptr) continue;
    memory.ref().free(remaining->words);
    delete remaining;
  }
  EXPECT_EQ(damaged, 0u);
  EXPECT_GT(allocated, 0u);
  std::cout << "  " << allocated << " allocations, "
            << memory.fault_count(fault_kind::out_of_memory) << " failed\n";
  expect_clean(memory);
}

using enum worker::kind;
INSTANTIATE_TEST_SUITE_P(
    Loads, HeapStress,
    ::testing::Values(load{"SlicesOfOneClass", 1_MiB, 4, false, {half}, 60, 60},
                      load{"ClassesThatTakeSegmentsFromEachOther",
                           512_KiB,
                           4,
                           false,
                           {medium, half, small},
                           150,
                           15},
                      load{"SlicesAndLargeAllocations", 1_MiB, 6, false, {large, medium}, 100, 15},
                      load{"LargeAllocationsOnly", 256_KiB, 4, false, {large}, 100, 20},
                      load{"WholeBlocks", 128_KiB, 4, false, {small}, 3000, 6},
                      load{"OneSegment", 64_KiB, 4, false, {half, medium}, 60, 40},
                      load{"HandedOver", 1_MiB, 8, true, {mixed, small, half}, 150, 8}),
    [](auto const& test) { return std::string{test.param.name}; });

}  // namespace heap_stress_test
}  // namespace quarry
