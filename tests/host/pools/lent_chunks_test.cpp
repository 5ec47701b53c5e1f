// SPDX-License-Identifier: Apache-2.0
// Larger allocations that arenas serve for the threads of others, in memory that was freed there.
#include "host/pools/idle_arenas.hpp"
#include "quarry/host/detail/fence_all_threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace lent_chunks_test {

using namespace idle_arenas;

class LentChunks : public testing::Test {
  void SetUp() override {
    if (!detail::fence_all_threads()) GTEST_SKIP() << "threads cannot fence others on this system";
  }
};

/// The program of a report on mimalloc, with larger allocations: threads allocate and then wait,
/// and another thread frees all and allocates as much as one of them, several times.
TEST_F(LentChunks, ServeAThreadWhileTheirOwnersAreIdle) {
  constexpr int owners = 4;
  constexpr bytes amount = 4_MiB;
  for (bytes const size : {bytes{4097}, bytes{20'000}, 64_KiB, 1_MiB}) {
    for (bool const is_shuffled : {false, true}) {
      std::atomic<bytes> reserved{0};
      arenas source{counted_resource{&reserved}, options};
      std::vector<std::unique_ptr<idle_thread>> threads;
      allocations all;
      for (int i = 0; i < owners; ++i) {
        threads.push_back(std::make_unique<idle_thread>());
        threads.back()->run([&] {
          auto const own = allocate(source, size, amount / size);
          all.insert(all.end(), own.begin(), own.end());
        });
      }
      if (is_shuffled) std::shuffle(all.begin(), all.end(), std::mt19937{1});
      deallocate(source, all);
      bytes const before = reserved;
      allocations second;
      for (int round = 0; round < 3; ++round) {
        second = allocate(source, size, amount / size);
        EXPECT_EQ(reserved, before) << size << ' ' << is_shuffled << ' ' << round;
        EXPECT_EQ(std::set<void*>(second.begin(), second.end()).size(), second.size());
        if (round != 2) deallocate(source, second);
      }
      EXPECT_EQ(source.counts().allocations_in_use, 0u) << "they count for the lender";
      std::size_t in_use = 0;
      bytes allocated = 0;
      for (auto& thread : threads) {
        thread->run([&] {
          auto const counts = source.counts();
          in_use += counts.allocations_in_use;
          allocated += counts.allocated;
          EXPECT_EQ(counts.invalid_frees, 0u);
          EXPECT_LE(counts.peak_allocated, amount);
          EXPECT_TRUE(is_sound(source));
        });
      }
      EXPECT_EQ(in_use, second.size());
      EXPECT_EQ(allocated, second.size() * size);
      deallocate(source, second);
      for (auto& thread : threads) thread->run([&] { source.release(); });
      EXPECT_EQ(reserved, 0u);
    }
  }
}

/// Otherwise all threads would allocate in the pool of the first thread, and wait for each other.
TEST_F(LentChunks, AreNoMoreThanOthersHaveFreed) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender;
  allocations own, freed;
  lender.run([&] {
    own = allocate(source, 64_KiB, 40);
    freed = allocate(source, 64_KiB, 40);
    deallocate(source, own);  // by the owner, so nobody else gets these
  });
  deallocate(source, freed);
  bytes const before = reserved;
  allocations second = allocate(source, 64_KiB, 40);
  EXPECT_EQ(reserved, before);
  second.push_back(source.allocate(64_KiB));
  EXPECT_EQ(reserved, before + options.first_block);
  deallocate(source, second);
}

/// The owner's next allocation takes back what others have freed.
TEST_F(LentChunks, AreTheOwnersAgainOnceItAllocates) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender;
  allocations freed, own;
  lender.run([&] { freed = allocate(source, 64_KiB, 40); });
  deallocate(source, freed);
  lender.run([&] { own = allocate(source, 64_KiB, 1); });
  bytes const before = reserved;
  void* const second = source.allocate(64_KiB);
  EXPECT_EQ(reserved, before + options.first_block);
  EXPECT_TRUE(source.deallocate(second));
  deallocate(source, own);
}

TEST_F(LentChunks, AreNotLentByArenasWithALimit) {
  std::atomic<bytes> reserved{0};
  pool_options limited = options;
  limited.max_bytes = 16_MiB;
  arenas source{counted_resource{&reserved}, limited};
  idle_thread lender;
  allocations freed;
  lender.run([&] { freed = allocate(source, 64_KiB, 200); });
  deallocate(source, freed);
  void* const second = source.allocate(64_KiB);
  EXPECT_EQ(reserved, 32_MiB);
  lender.run([&] {
    freed = allocate(source, 64_KiB, 200);
    deallocate(source, freed);
  });
  EXPECT_TRUE(source.deallocate(second));
}

TEST_F(LentChunks, AreAligned) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender;
  allocations freed;
  lender.run([&] { freed = allocate(source, 50'000, 40); });
  deallocate(source, freed);
  bytes const before = reserved;
  for (bytes const alignment : {64u, 4096u, 65536u}) {
    auto* const memory = source.allocate(30'000, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    EXPECT_EQ(reserved, before);
    freed.push_back(memory);
  }
  deallocate(source, freed);
  lender.run([&] { EXPECT_TRUE(is_sound(source)); });
}

/// The registry names the lender for them, and any thread frees them.
TEST_F(LentChunks, AreFreedByTheBorrowerTheLenderAndAnotherThread) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender, third;
  allocations freed;
  allocator_id owner = 0;
  lender.run([&] { freed = allocate(source, 64_KiB, 9); });
  owner = registry::find(freed[0])->allocator;
  deallocate(source, freed);
  allocations lent = allocate(source, 64_KiB, 9);
  for (void* const each : lent) {
    auto const found = registry::find(static_cast<char*>(each) + 100);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->base, each);
    EXPECT_EQ(found->size, 64_KiB);
    EXPECT_EQ(found->allocator, owner);
  }
  allocations parts[3];
  for (std::size_t i = 0; i < lent.size(); ++i) parts[i % 3].push_back(lent[i]);
  deallocate(source, parts[0]);
  lender.run([&] { deallocate(source, parts[1]); });
  third.run([&] { deallocate(source, parts[2]); });
  lender.run([&] {
    EXPECT_EQ(source.counts().allocated, 0u);
    EXPECT_EQ(source.counts().invalid_frees, 0u);
    EXPECT_EQ(source.counts().allocations, 18u);
    EXPECT_TRUE(is_sound(source));
  });
}

/// Others take what the ended thread's arena has once a thread has it again.
TEST_F(LentChunks, MayOutliveTheThreadOfTheirLender) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  allocations freed, lent;
  {
    idle_thread lender;
    lender.run([&] { freed = allocate(source, 64_KiB, 40); });
    deallocate(source, freed);
    lent = allocate(source, 64_KiB, 20);
  }
  for (void* const each : lent) std::memset(each, 1, 64_KiB);
  idle_thread heir;
  heir.run([&] {
    auto own = allocate(source, 64_KiB, 20);
    for (void* const each : own) EXPECT_EQ(std::count(lent.begin(), lent.end(), each), 0);
    deallocate(source, own);
  });
  deallocate(source, lent);
  heir.run([&] {
    EXPECT_EQ(source.counts().allocated, 0u);
    EXPECT_TRUE(is_sound(source));
  });
}

/// The address of a second free is in the list of returns when another thread frees what the list
/// has, and refuses it.
TEST_F(LentChunks, CountASecondFreeOnce) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender;
  allocations freed;
  lender.run([&] { freed = allocate(source, 64_KiB, 40); });
  void* const twice = freed[7];
  deallocate(source, freed);
  EXPECT_TRUE(source.deallocate(twice));
  void* const lent = source.allocate(32_KiB);
  EXPECT_EQ(reserved, 16_MiB);
  lender.run([&] {
    EXPECT_EQ(source.counts().invalid_frees, 1u);
    EXPECT_EQ(source.counts().allocated, 32_KiB);
    EXPECT_TRUE(is_sound(source));
  });
  EXPECT_TRUE(source.deallocate(lent));
}

/// Four threads allocate, free each other's memory and release, in a random order. The counts of
/// all agree with a naive model, and no two allocations overlap.
TEST_F(LentChunks, AgreeWithANaiveModel) {
  constexpr unsigned threads = 4;
  constexpr bytes sizes[] = {100, 4096, 5000, 64_KiB, 300'000};
  for (unsigned seed = 1; seed <= 6; ++seed) {
    std::mt19937 random{seed};
    std::atomic<bytes> reserved{0};
    arenas source{counted_resource{&reserved}, options};
    idle_thread all[threads];
    std::map<char*, bytes> model;
    for (int step = 0; step < 150; ++step) {
      auto const action = random() % 8;
      bytes const size = sizes[random() % std::size(sizes)];
      all[random() % threads].run([&] {
        if (action < 3) {
          for (bytes amount = random() % 3_MiB; amount >= size; amount -= size) {
            auto* const memory = static_cast<char*>(source.allocate(size));
            auto const next = model.lower_bound(memory);
            ASSERT_TRUE(next == model.end() || memory + size <= next->first) << seed;
            ASSERT_TRUE(next == model.begin() ||
                        std::prev(next)->first + std::prev(next)->second <= memory)
                << seed;
            model.emplace_hint(next, memory, size);
          }
        } else if (action < 7) {
          std::erase_if(model, [&](auto const& each) {
            if (random() % 3 == 0) return false;
            EXPECT_TRUE(source.deallocate(each.first)) << seed;
            return true;
          });
        } else {
          source.release();
        }
      });
      if (step % 10 != 0) continue;
      std::size_t in_use = 0;
      bytes allocated = 0, expected = 0, sum_of_reserved = 0;
      for (auto const& [memory, each] : model) expected += each;
      for (idle_thread& each : all) {
        each.run([&] {
          auto const counts = source.counts();
          in_use += counts.allocations_in_use;
          allocated += counts.allocated;
          sum_of_reserved += counts.reserved;
          EXPECT_EQ(counts.invalid_frees, 0u) << seed;
          ASSERT_TRUE(is_sound(source)) << seed;
        });
      }
      ASSERT_EQ(in_use, model.size()) << seed;
      ASSERT_EQ(allocated, expected) << seed;
      ASSERT_EQ(sum_of_reserved, reserved) << seed;
    }
    for (auto const& [memory, each] : model) EXPECT_TRUE(source.deallocate(memory));
    for (int round = 0; round < 2; ++round) {
      for (idle_thread& each : all) each.run([&] { source.release(); });
    }
    EXPECT_EQ(reserved, 0u) << seed;
  }
}

/// Owners that allocate and free large and small memory at any time, and threads that free it and
/// allocate in its place. Nothing but the passed memory orders the threads.
TEST_F(LentChunks, KeepTheirContentsWhileOwnersAreBusy) {
  constexpr unsigned threads = 4;
  struct entry {
    unsigned char* memory;
    bytes size;
    unsigned char mark;
  };
  std::atomic<bytes> reserved{0};
  pool_options small = options;
  small.first_block = 1_MiB;
  arenas source{counted_resource{&reserved}, small};
  std::mutex mutex;
  std::vector<entry> passed;  // Guarded by: the mutex
  auto const check_and_free = [&](entry const& each) {
    for (bytes const at : {bytes{0}, each.size / 2, each.size - 1})
      ASSERT_EQ(each.memory[at], each.mark);
    ASSERT_TRUE(source.deallocate(each.memory));
  };
  auto const work = [&](unsigned seed) {
    std::mt19937 random{seed};
    std::vector<entry> own, taken;
    for (int round = 0; round < 150; ++round) {
      for (int i = 0; i < 20; ++i) {
        bytes const size = random() % 4 == 0 ? 1 + random() % 4096 : 4097 + random() % 100'000;
        auto const mark = static_cast<unsigned char>(random());
        auto* const memory = static_cast<unsigned char*>(source.allocate(size));
        for (bytes const at : {bytes{0}, size / 2, size - 1}) memory[at] = mark;
        own.push_back({memory, size, mark});
      }
      std::shuffle(own.begin(), own.end(), random);
      {
        std::lock_guard const lock{mutex};
        passed.insert(passed.end(), own.begin() + 5, own.end());
        taken.swap(passed);
      }
      own.resize(5);
      for (entry const& each : own) check_and_free(each);
      for (entry const& each : taken) check_and_free(each);
      own.clear();
      taken.clear();
      if (random() % 16 == 0) source.release();
      if (random() % 16 == 0) source.leave();
      EXPECT_TRUE(random() % 16 != 0 || is_sound(source));
    }
  };
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i + 1);
  for (auto& each : all) each.join();
  for (entry const& each : passed) check_and_free(each);
  EXPECT_TRUE(is_sound(source));
  source.leave();
  source.release();
  EXPECT_EQ(reserved, 0u);
}

}  // namespace lent_chunks_test
}  // namespace quarry::test
