// SPDX-License-Identifier: Apache-2.0
// Arenas that their own resource uses, in the calls in which they use the resource.
#include "host/pools/idle_arenas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {
namespace reentrant_arenas_test {

using idle_arenas::idle_thread;

/// Runs a task of a test in each call.
struct calling_resource {
  struct tasks {
    std::function<void()> at_allocation, at_deallocation;
    std::atomic<bytes> reserved{0};
  };
  tasks* all;
  void* allocate(bytes size, bytes alignment) {
    if (all->at_allocation) all->at_allocation();
    void* const result = host_resource{}.allocate(size, alignment);
    all->reserved += size;
    return result;
  }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    if (all->at_deallocation) all->at_deallocation();
    all->reserved -= size;
    host_resource{}.deallocate(memory, size, alignment);
  }
};
using arenas = thread_arenas<calling_resource>;
pool_options const small_blocks{
    .first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .shrink_after = 1};

/// A thread that leaves its arena frees what others returned. That returns a block, and the
/// resource allocates.
TEST(ReentrantArenas, AreLeftAlthoughTheResourceAllocatesMeanwhile) {
  calling_resource::tasks tasks;
  arenas source{calling_resource{&tasks}, small_blocks};
  void* const freed[] = {source.allocate(900_KiB), source.allocate(900_KiB)};
  idle_thread other;
  other.run([&] {
    for (void* const each : freed) EXPECT_TRUE(source.deallocate(each));
  });
  void* allocated = nullptr;
  tasks.at_deallocation = [&] {
    if (allocated == nullptr) allocated = source.allocate(100);
  };
  source.leave();
  ASSERT_NE(allocated, nullptr);
  void* second = nullptr;
  other.run([&] { second = source.allocate(100); });
  void* const third = source.allocate(100);
  EXPECT_EQ(source.arenas(), 2u) << "two threads have one arena";
  for (void* const each : {allocated, second, third}) EXPECT_TRUE(source.deallocate(each));
  tasks.at_deallocation = nullptr;
}

/// A thread that releases an idle arena's block leaves its own arena in the call of the resource,
/// and another thread gets that arena. So its block stays.
TEST(ReentrantArenas, AreNotReleasedOnceTheResourceLeftThem) {
  calling_resource::tasks tasks;
  pool_options keeps_blocks = small_blocks;
  keeps_blocks.shrink_after = 0;
  arenas source{calling_resource{&tasks}, keeps_blocks};
  EXPECT_TRUE(source.deallocate(source.allocate(100)));
  idle_thread heir;
  {
    idle_thread ended;
    ended.run([&] { EXPECT_TRUE(source.deallocate(source.allocate(100))); });
  }
  EXPECT_EQ(tasks.reserved, 2_MiB);
  bool has_left = false;
  tasks.at_deallocation = [&] {
    if (std::exchange(has_left, true)) return;
    source.leave();
    heir.run([&] { EXPECT_TRUE(source.deallocate(source.allocate(100))); });
  };
  source.release();
  EXPECT_TRUE(has_left);
  EXPECT_EQ(source.arenas(), 2u);
  EXPECT_EQ(tasks.reserved, 1_MiB) << "the heir's block";
  tasks.at_deallocation = nullptr;
}

/// Otherwise another thread would get the arena in the middle of the call.
TEST(ReentrantArenas, AreNotLeftByTheirResource) {
  calling_resource::tasks tasks;
  arenas source{calling_resource{&tasks}, small_blocks};
  idle_thread other;
  void* second = nullptr;
  bool has_left = false;
  tasks.at_allocation = [&] {
    if (std::exchange(has_left, true)) return;
    source.leave();
    other.run([&] { second = source.allocate(100_KiB); });
  };
  void* const first = source.allocate(100_KiB);
  EXPECT_EQ(source.arenas(), 2u) << "two threads have one arena";
  EXPECT_NE(first, second);
  EXPECT_TRUE(source.deallocate(first));
  EXPECT_TRUE(source.deallocate(second));
  source.leave();
  other.run([&] { source.leave(); });
  EXPECT_TRUE(source.deallocate(source.allocate(100)));
  EXPECT_EQ(source.arenas(), 2u) << "they are left later";
}

/// What several threads have allocated, with a mark in each allocation. Allocates and frees at
/// random.
class marked_allocations {
 public:
  explicit marked_allocations(arenas& source) : source_{source} {}
  void allocate(std::mt19937& random) {
    constexpr bytes small = 4096;
    bytes const size = random() % 3 == 0 ? 8 + random() % small : small + 1 + random() % 300'000;
    auto const allocated = [&]() -> char* {
      try {
        return static_cast<char*>(random() % 8 == 0 ? source_.allocate(size, 4096)
                                                    : source_.allocate(size));
      } catch (std::bad_alloc const&) {
        return nullptr;
      } catch (std::runtime_error const&) {
        return nullptr;
      }
    };
    char* const memory = allocated();
    if (memory == nullptr) return;
    auto const mark = static_cast<std::uint32_t>(random());
    std::memcpy(memory, &mark, sizeof(mark));
    std::memcpy(memory + size - sizeof(mark), &mark, sizeof(mark));
    std::lock_guard const lock{mutex_};
    auto const next = ranges_.lower_bound(memory);
    EXPECT_TRUE(next == ranges_.end() || memory + size <= next->first);
    EXPECT_TRUE(next == ranges_.begin() || std::prev(next)->second <= memory);
    ranges_.emplace_hint(next, memory, memory + size);
    all_.push_back({memory, size, mark});
  }
  /// Returns false if there is none to free.
  bool free_one(std::mt19937& random) {
    entry freed;
    {
      std::lock_guard const lock{mutex_};
      if (all_.empty()) return false;
      std::swap(all_[random() % all_.size()], all_.back());
      freed = all_.back();
      all_.pop_back();
      ranges_.erase(freed.memory);
    }
    std::uint32_t first = 0, last = 0;
    std::memcpy(&first, freed.memory, sizeof(first));
    std::memcpy(&last, freed.memory + freed.size - sizeof(last), sizeof(last));
    EXPECT_EQ(first, freed.mark);
    EXPECT_EQ(last, freed.mark);
    EXPECT_TRUE(source_.deallocate(freed.memory));
    return true;
  }
  [[nodiscard]] bool are_many() {
    std::lock_guard const lock{mutex_};
    return all_.size() > 300;
  }

 private:
  struct entry {
    char* memory;
    bytes size;
    std::uint32_t mark;
  };
  arenas& source_;
  std::mutex mutex_;
  std::vector<entry> all_;         // Guarded by: the mutex
  std::map<char*, char*> ranges_;  // Guarded by: the mutex
};

/// The resource allocates, frees, releases, leaves and throws, while other threads allocate in the
/// arena. No two allocations overlap, and all memory returns in the end.
TEST(ReentrantArenas, ServeTheirResourceWhileOtherThreadsAllocateThere) {
  constexpr unsigned threads = 4;
  for (std::uint64_t const shrink_after : {0, 3}) {
    calling_resource::tasks tasks;
    pool_options tested = small_blocks;
    tested.first_block = tested.next_block = 256_KiB;  // so that the resource is called often
    tested.shrink_after = shrink_after;
    arenas source{calling_resource{&tasks}, tested};
    marked_allocations memory{source};
    static thread_local std::mt19937 random;
    static thread_local int depth;
    auto const use = [&] {
      if (depth == 2) return;
      ++depth;
      for (auto uses = random() % 4; uses != 0; --uses) {
        auto const action = random() % 8;
        if (action < 3) memory.allocate(random);
        if (action >= 3 && action < 6) (void)memory.free_one(random);
        if (action == 6) source.release();
        if (action == 7) source.leave();
      }
      --depth;
    };
    tasks.at_deallocation = use;
    tasks.at_allocation = [&] {
      use();
      auto const failure = random() % 8;
      if (failure == 0) throw std::bad_alloc{};
      if (failure == 1) throw std::runtime_error{"the resource fails"};
    };
    auto const work = [&](unsigned seed) {
      random.seed(seed);
      for (int round = 0; round < 500; ++round) {
        bool const grows = !memory.are_many();
        for (auto calls = random() % 40; calls != 0; --calls)
          (random() % 3 == 0) == grows ? (void)memory.free_one(random) : memory.allocate(random);
        if (random() % 16 == 0) source.release();
        if (random() % 16 == 0) source.leave();
        EXPECT_TRUE(random() % 16 != 0 || source.audit().empty());
      }
    };
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i + 1);
    for (auto& each : all) each.join();
    tasks.at_allocation = tasks.at_deallocation = nullptr;
    while (memory.free_one(random)) continue;
    EXPECT_TRUE(source.audit().empty());
    source.leave();
    for (int round = 0; round < 2; ++round) source.release();
    EXPECT_EQ(tasks.reserved, 0u);
  }
}

}  // namespace reentrant_arenas_test
}  // namespace quarry::test
