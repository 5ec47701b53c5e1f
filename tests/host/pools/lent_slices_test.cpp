// SPDX-License-Identifier: Apache-2.0
// Memory for slices that the arenas of threads lend each other, by one thread at a time.
#include "host/pools/idle_arenas.hpp"
#include "quarry/host/pools/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace quarry::test {
namespace lent_slices_test {

using namespace idle_arenas;

/// The program of a report on mimalloc: threads allocate and then wait, and another thread frees
/// all and allocates as much as one of them.
TEST(LentSlices, ServeAThreadWhileTheirOwnersAreIdle) {
  constexpr int owners = 8;
  constexpr bytes amount = 4_MiB;
  for (bytes const size : {64u, 1024u, 4096u}) {
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
          EXPECT_TRUE(is_sound(source));
        });
      }
      if (is_shuffled) std::shuffle(all.begin(), all.end(), std::mt19937{1});
      deallocate(source, all);
      bytes const before = reserved;
      auto second = allocate(source, size, amount / size);
      EXPECT_EQ(reserved, before) << size << ' ' << is_shuffled;
      EXPECT_EQ(std::set<void*>(second.begin(), second.end()).size(), second.size());
      EXPECT_EQ(source.counts().allocations_in_use, second.size());
      EXPECT_EQ(source.counts().allocated, second.size() * size);
      EXPECT_EQ(source.counts().reserved, 0u) << "a loan counts for the lender";
      EXPECT_TRUE(is_sound(source));
      std::size_t in_use = 0;
      for (auto& thread : threads) {
        thread->run([&] {
          in_use += source.counts().allocations_in_use;
          EXPECT_EQ(source.counts().allocated, 0u);
          EXPECT_EQ(source.counts().invalid_frees, 0u);
          EXPECT_TRUE(is_sound(source));
        });
      }
      EXPECT_EQ(in_use, 0u);
      deallocate(source, second);
      source.release();
      for (auto& thread : threads) thread->run([&] { source.release(); });
      EXPECT_EQ(reserved, 0u);
    }
  }
}

/// A lender that had nothing in use could otherwise not allocate: others would have its memory.
TEST(LentSlices, AreNotLentByArenasWithALimit) {
  constexpr bytes limit = 16_MiB;
  std::atomic<bytes> reserved{0};
  pool_options limited = options;
  limited.max_bytes = limit;
  arenas source{counted_resource{&reserved}, limited};
  idle_thread lender;
  allocations freed;
  constexpr std::size_t most = 15'000;
  lender.run([&] { freed = allocate(source, 1024, most); });
  deallocate(source, freed);
  auto own = allocate(source, 1024, most);
  lender.run([&] {
    auto again = allocate(source, 1024, most);
    deallocate(source, again);
    EXPECT_TRUE(is_sound(source));
  });
  deallocate(source, own);
}

/// What a lender, a borrower and another thread do with memory that is lent.
struct loan {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender, borrower, other;
  allocations borrowed;

  loan() {
    allocations freed;
    lender.run([&] { freed = allocate(source, 64, 50'000); });
    deallocate(source, freed);
    bytes const before = reserved;
    borrower.run([&] {
      borrowed = allocate(source, 256, 5000);
      EXPECT_EQ(source.counts().reserved, 0u);
    });
    EXPECT_EQ(reserved, before);
  }
  ~loan() {
    for (idle_thread* const each : {&borrower, &lender, &other})
      each->run([&] { EXPECT_TRUE(is_sound(source)); });
  }
  std::size_t in_use_of_borrower() {
    std::size_t result = 0;
    borrower.run([&] { result = source.counts().allocations_in_use; });
    return result;
  }
};

TEST(LentSlices, AreFreedByTheBorrowerTheLenderAndAnotherThread) {
  loan tested;
  std::size_t const third = tested.borrowed.size() / 3;
  for (idle_thread* const each : {&tested.borrower, &tested.lender, &tested.other}) {
    each->run([&] {
      for (std::size_t i = 0; i < third; ++i) {
        void* const freed = tested.borrowed.back();
        tested.borrowed.pop_back();
        ASSERT_TRUE(tested.source.deallocate(freed));
      }
    });
  }
  EXPECT_EQ(tested.in_use_of_borrower(), tested.borrowed.size());
  tested.lender.run([&] { EXPECT_EQ(tested.source.counts().allocations_in_use, 0u); });
  deallocate(tested.source, tested.borrowed);
  EXPECT_EQ(tested.in_use_of_borrower(), 0u);
}

TEST(LentSlices, AreNotFreedTwice) {
  loan tested;
  void* const freed = tested.borrowed.back();
  tested.borrowed.pop_back();
  tested.lender.run([&] {
    EXPECT_TRUE(tested.source.deallocate(freed));
    EXPECT_FALSE(tested.source.deallocate(freed));
    EXPECT_FALSE(tested.source.deallocate(static_cast<char*>(freed) + 16));
  });
  tested.borrower.run([&] { (void)tested.source.counts(); });
  for (idle_thread* const each : {&tested.borrower, &tested.lender, &tested.other})
    each->run([&] { EXPECT_FALSE(tested.source.deallocate(freed)); });
}

TEST(LentSlices, AreFoundByTheRegistry) {
  loan tested;
  char* const inner = static_cast<char*>(tested.borrowed[7]) + 100;
  auto const found = registry::find(inner);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, tested.borrowed[7]);
  EXPECT_EQ(found->size, 256u);
  tested.lender.run([&] { (void)tested.source.counts(); });  // frees what it has not lent
  std::size_t in_use = 0;
  for (auto const& each : registry::allocators()) in_use += each.allocations_in_use;
  EXPECT_EQ(in_use, tested.borrowed.size());
}

TEST(LentSlices, ReturnToTheLenderWhenTheyAreFreed) {
  loan tested;
  tested.borrower.run([&] {
    deallocate(tested.source, tested.borrowed);
    tested.source.release();
  });
  EXPECT_NE(tested.reserved, 0u);
  tested.lender.run([&] { tested.source.release(); });
  EXPECT_EQ(tested.reserved, 0u);
}

/// The lender's thread ends, and another thread gets its arena, while the memory is lent.
TEST(LentSlices, MayOutliveTheThreadOfTheirLender) {
  loan tested;
  tested.lender.run([&] { tested.source.leave(); });
  tested.other.run([&] {
    auto own = allocate(tested.source, 64, 40'000);
    EXPECT_TRUE(is_sound(tested.source));
    std::set<void*> all{own.begin(), own.end()};
    for (void* const each : tested.borrowed) EXPECT_EQ(all.count(each), 0u);
    deallocate(tested.source, own);
    deallocate(tested.source, tested.borrowed);
  });
  EXPECT_EQ(tested.in_use_of_borrower(), 0u);
}

/// The borrower's thread ends: frees into its arena take effect at once, and all memory returns.
TEST(LentSlices, MayOutliveTheThreadOfTheirBorrower) {
  loan tested;
  tested.borrower.run([&] { tested.source.leave(); });
  deallocate(tested.source, tested.borrowed);
  tested.lender.run([&] { tested.source.leave(); });
  tested.source.release();
  EXPECT_EQ(tested.reserved, 0u);
}

/// Another thread frees the borrower's slices and borrows the same memory.
TEST(LentSlices, PassOnToTheNextBorrower) {
  loan tested;
  deallocate(tested.source, tested.borrowed);
  bytes const before = tested.reserved;
  tested.other.run([&] {
    auto own = allocate(tested.source, 128, 20'000);
    EXPECT_EQ(tested.reserved, before);
    EXPECT_EQ(tested.source.counts().reserved, 0u);
    deallocate(tested.source, own);
  });
  EXPECT_EQ(tested.in_use_of_borrower(), 0u);
}

/// The lender itself needs memory, and gets its own from the borrower.
TEST(LentSlices, ReturnToALenderThatBorrows) {
  loan tested;
  deallocate(tested.source, tested.borrowed);
  tested.lender.run([&] {
    auto own = allocate(tested.source, 64, 60'000);
    EXPECT_TRUE(is_sound(tested.source));
    EXPECT_EQ(tested.source.counts().allocations_in_use, 60'000u);
    deallocate(tested.source, own);
  });
}

/// A program error: a thread marks a slice, and its owner frees it, too.
TEST(LentSlices, CountTheOwnersFreeAfterAnotherThreadsFree) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender, borrower;
  allocations freed;
  lender.run([&] { freed = allocate(source, 64, 50'000); });
  void* const twice = freed[10'000];
  deallocate(source, freed);
  lender.run([&] { EXPECT_TRUE(source.deallocate(twice)); });
  borrower.run([&] {
    auto const own = allocate(source, 64, 48'000);
    EXPECT_EQ(std::count(own.begin(), own.end(), twice), 0);
  });
  lender.run([&] {
    EXPECT_EQ(source.counts().invalid_frees, 1u);
    EXPECT_EQ(source.counts().allocations_in_use, 0u);
    EXPECT_TRUE(is_sound(source));
  });
}

/// The lender has not counted what others freed and borrow now. Its next allocation, of any size,
/// does so first.
TEST(LentSlices, DoNotCountInTheLendersPeak) {
  std::atomic<bytes> reserved{0};
  arenas source{counted_resource{&reserved}, options};
  idle_thread lender, borrower;
  allocations freed, borrowed;
  lender.run([&] { freed = allocate(source, 256, 20'000); });
  deallocate(source, freed);
  borrower.run([&] { borrowed = allocate(source, 256, 20'000); });
  lender.run([&] {
    void* const large = source.allocate(1_MiB);
    EXPECT_EQ(source.counts().peak_allocated, 20'000u * 256u);
    EXPECT_TRUE(source.deallocate(large));
  });
  deallocate(source, borrowed);
}

/// Another thread frees a slice before each allocation of a thread that has only borrowed memory.
/// An allocation that a quick list serves leaves that slice alone, so the registry still finds it.
/// Any other allocation gets that slice or frees it.
/// A quick list has half of its 128 slices after each allocation that it did not serve.
TEST(LentSlices, AreServedByAQuickListToAThreadThatOnlyBorrows) {
  loan tested;
  constexpr std::size_t allocated = 640;
  std::size_t slow = 0;
  for (std::size_t i = 0; i < allocated; ++i) {
    void* const marked = tested.borrowed[i];
    ASSERT_TRUE(tested.source.deallocate(marked));
    tested.borrower.run([&] { tested.borrowed.push_back(tested.source.allocate(256)); });
    slow += tested.borrowed.back() == marked || !registry::find(marked);
  }
  EXPECT_LE(slow, allocated / 32);
  EXPECT_GE(slow, 1u) << "the test sees the other allocations";
  tested.borrower.run([&] { EXPECT_EQ(tested.source.counts().reserved, 0u); });
  tested.borrowed.erase(tested.borrowed.begin(), tested.borrowed.begin() + allocated);
  deallocate(tested.source, tested.borrowed);
}

TEST(LentSlices, MayBeLentWhenTheArenasAreDestroyed) {
  std::atomic<bytes> reserved{0};
  auto source = std::make_unique<arenas>(counted_resource{&reserved}, options);
  idle_thread lender, borrower;
  for (int round = 0; round < 2; ++round) {
    allocations freed;
    (round == 0 ? lender : borrower).run([&] { freed = allocate(*source, 64, 20'000); });
    deallocate(*source, freed);
    (round == 0 ? borrower : lender).run([&] { (void)allocate(*source, 64, 20'000); });
  }
  source.reset();
  EXPECT_EQ(reserved, 0u);
}

/// Arenas above a pool: two pools have the map pages, so frees take the way of other sizes.
TEST(LentSlices, WorkAboveAPool) {
  struct above {
    pool<host_resource>* below;
    std::mutex* mutex;
    void* allocate(bytes size, bytes alignment) {
      std::lock_guard const lock{*mutex};
      return below->allocate(size, alignment);
    }
    void deallocate(void* memory, bytes, bytes) noexcept {
      std::lock_guard const lock{*mutex};
      below->deallocate(memory);
    }
  };
  pool<host_resource> below{host_resource{}, {.first_block = 64_MiB}};
  std::mutex mutex;
  {
    thread_arenas<above> source{above{&below, &mutex}, options};
    idle_thread lender, borrower, other;
    allocations freed, borrowed;
    lender.run([&] {
      for (int i = 0; i < 50'000; ++i) freed.push_back(source.allocate(64));
    });
    for (void* const each : freed) ASSERT_TRUE(source.deallocate(each));
    borrower.run([&] {
      for (int i = 0; i < 10'000; ++i) borrowed.push_back(source.allocate(64));
    });
    for (idle_thread* const each : {&other, &lender}) {
      each->run([&] {
        for (int i = 0; i < 5000; ++i) {
          ASSERT_TRUE(source.deallocate(borrowed.back()));
          borrowed.pop_back();
        }
      });
    }
    borrower.run([&] {
      EXPECT_EQ(source.counts().allocations_in_use, 0u);
      EXPECT_EQ(source.counts().invalid_frees, 0u);
      EXPECT_TRUE(source.audit().empty());
    });
  }
  EXPECT_EQ(below.counts().allocations_in_use, 0u);
}

}  // namespace lent_slices_test
}  // namespace quarry::test
