// SPDX-License-Identifier: Apache-2.0
// Memory for slices that the arenas of threads lend each other, in a random order and at the same
// time.
#include "host/pools/idle_arenas.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace quarry::test {
namespace busy_lenders_test {

using namespace idle_arenas;

/// Four threads allocate, free each other's slices and release, in a random order. Their counts
/// agree with a naive model, and no two allocations overlap.
TEST(BusyLenders, AgreeWithANaiveModel) {
  constexpr unsigned threads = 4;
  constexpr bytes sizes[] = {64, 200, 1024, 4096};
  struct allocation {
    unsigned owner;
    bytes size;
  };
  for (unsigned seed = 1; seed <= 4; ++seed) {
    std::mt19937 random{seed};
    std::atomic<bytes> reserved{0};
    arenas source{counted_resource{&reserved}, options};
    idle_thread all[threads];
    std::map<char*, allocation> model;
    for (int step = 0; step < 100; ++step) {
      auto const number = static_cast<unsigned>(random() % threads);
      bytes const size = sizes[random() % std::size(sizes)];
      auto const action = random() % 8;
      all[number].run([&] {
        if (action < 3) {
          for (bytes amount = random() % 1_MiB; amount >= size; amount -= size) {
            auto* const memory = static_cast<char*>(source.allocate(size));
            auto const next = model.lower_bound(memory);
            ASSERT_TRUE(next == model.end() || memory + size <= next->first) << seed;
            ASSERT_TRUE(next == model.begin() ||
                        std::prev(next)->first + std::prev(next)->second.size <= memory)
                << seed;
            model.emplace_hint(next, memory, allocation{number, size});
          }
        } else if (action < 7) {
          auto const kept = random() % 3 == 0 ? 0 : random() % 10, owner = random() % threads;
          std::erase_if(model, [&](auto const& each) {
            if (each.second.owner != owner || random() % 10 < kept) return false;
            EXPECT_TRUE(source.deallocate(each.first)) << seed;
            return true;
          });
        } else {
          source.release();
        }
      });
      if (step % 10 != 0) continue;
      bytes sum_of_reserved = 0;
      for (unsigned owner = 0; owner < threads; ++owner) {
        std::size_t count = 0;
        bytes allocated = 0;
        for (auto const& [memory, each] : model) {
          count += each.owner == owner;
          allocated += each.owner == owner ? each.size : 0;
        }
        all[owner].run([&] {
          auto const counts = source.counts();
          ASSERT_EQ(counts.allocations_in_use, count) << seed;
          ASSERT_EQ(counts.allocated, allocated) << seed;
          ASSERT_EQ(counts.invalid_frees, 0u) << seed;
          ASSERT_TRUE(is_sound(source)) << seed;
          sum_of_reserved += counts.reserved;
        });
      }
      ASSERT_EQ(sum_of_reserved, reserved) << seed;
    }
    for (auto const& [memory, each] : model) EXPECT_TRUE(source.deallocate(memory));
    for (int round = 0; round < 2; ++round) {
      for (idle_thread& each : all) each.run([&] { source.release(); });
    }
    EXPECT_EQ(reserved, 0u) << seed;
  }
}

/// Threads that allocate, write, pass on, check and free at the same time, leave their arenas and
/// end. Their memory grows and shrinks, so that they borrow and lend.
TEST(BusyLenders, KeepTheirContentsWhileThreadsBorrowAndLend) {
  struct entry {
    unsigned char* memory;
    bytes size;
  };
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  std::mutex mutex;
  std::vector<entry> passed;  // Guarded by: the mutex
  auto const work = [&](unsigned seed) {
    std::mt19937 random{seed};
    constexpr bytes sizes[] = {64, 256, 1024, 4096};
    std::vector<entry> own;
    for (int round = 0; round < 12; ++round) {
      bytes const size = sizes[random() % std::size(sizes)];
      for (bytes amount = random() % 3_MiB; amount >= size; amount -= size) {
        auto* const memory = static_cast<unsigned char*>(source.allocate(size));
        std::memset(memory, static_cast<int>(size % 251), 8);
        memory[size - 1] = static_cast<unsigned char>(size % 251);
        own.push_back({memory, size});
      }
      {
        std::lock_guard const lock{mutex};
        passed.insert(passed.end(), own.begin(), own.end());
        own.clear();
        std::swap(own, passed);
      }
      std::size_t const kept = random() % 2 == 0 ? 0 : own.size() / 4;
      while (own.size() > kept) {
        entry const freed = own.back();
        own.pop_back();
        for (bytes const at : {bytes{0}, bytes{7}, freed.size - 1})
          ASSERT_EQ(freed.memory[at], freed.size % 251);
        ASSERT_TRUE(source.deallocate(freed.memory));
      }
      if (random() % 8 == 0) source.leave();
      if (random() % 8 == 0) source.release();
      EXPECT_TRUE(random() % 8 != 0 || is_sound(source));
    }
    std::lock_guard const lock{mutex};
    passed.insert(passed.end(), own.begin(), own.end());
  };
  for (unsigned generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 4; ++number)
      threads.emplace_back(work, generation * 4 + number + 1);
    for (auto& each : threads) each.join();
  }
  for (entry const& each : passed) EXPECT_TRUE(source.deallocate(each.memory));
  EXPECT_TRUE(is_sound(source));
  source.leave();
  source.release();
  EXPECT_EQ(reserved, 0u);
}

/// Two owners allocate and free, and pass slices to a thread that frees them. Meanwhile two threads
/// without memory of their own borrow from both, and return what they have borrowed. Nothing else
/// orders the threads.
TEST(BusyLenders, KeepTheirContentsWhileOwnersAreBusy) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  auto const use = [&](bytes size, std::size_t count, unsigned char mark) {
    auto result = std::make_unique<allocations>(allocate(source, size, count));
    for (void* const each : *result) std::memset(each, mark, 16);
    return result;
  };
  auto const check_and_free = [&](allocations& freed, unsigned char mark) {
    for (void* const each : freed) {
      auto const* const bytes_of = static_cast<unsigned char const*>(each);
      ASSERT_TRUE(bytes_of[0] == mark && bytes_of[15] == mark);
    }
    deallocate(source, freed);
  };
  std::atomic<allocations*> passed{nullptr};
  auto const pass = [&](std::unique_ptr<allocations> others) {
    std::unique_ptr<allocations> const left{passed.exchange(others.release())};
    if (left != nullptr) check_and_free(*left, 3);
  };
  std::atomic<int> owners{2}, borrowers{2};
  std::vector<std::unique_ptr<idle_thread>> lenders;
  for (int i = 0; i < 2; ++i) {
    lenders.push_back(std::make_unique<idle_thread>());
    std::unique_ptr<allocations> freed;
    lenders.back()->run([&] { freed = use(256, 8_MiB / 256, 1); });
    check_and_free(*freed, 1);
  }
  std::vector<std::thread> threads;
  for (auto& lender : lenders) {
    threads.emplace_back([&] {
      lender->run([&] {
        for (int round = 0; borrowers != 0; ++round) {
          if (round % 8 == 7) source.release();
          EXPECT_TRUE(is_sound(source));
          auto const own = use(256, 300, 2);
          pass(use(256, 2000, 3));
          check_and_free(*own, 2);
        }
        --owners;
      });
    });
  }
  threads.emplace_back([&] {
    while (owners != 0) {
      std::unique_ptr<allocations> const freed{passed.exchange(nullptr)};
      if (freed != nullptr) check_and_free(*freed, 3);
    }
  });
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      auto const mark = static_cast<unsigned char>(4 + i);
      for (int round = 0; round < 60; ++round) {
        auto const own = use(128, 2000, mark);
        pass(use(128, 2000, 3));
        check_and_free(*own, mark);
        if (round % 4 == 0) source.release();
      }
      --borrowers;
    });
  }
  for (auto& each : threads) each.join();
  pass(nullptr);
  source.release();
  for (int round = 0; round < 2; ++round) {
    for (auto& lender : lenders) {
      lender->run([&] {
        EXPECT_TRUE(is_sound(source));
        EXPECT_EQ(source.counts().allocated, 0u);
        source.release();
      });
    }
  }
  EXPECT_EQ(reserved, 0u);
}

}  // namespace busy_lenders_test
}  // namespace quarry::test
