// SPDX-License-Identifier: Apache-2.0
// Memory for slices that the arenas of threads lend each other.
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {
namespace lent_slices_test {

/// Counts the bytes of the blocks that the arenas have.
struct counted_resource {
  std::atomic<bytes>* reserved;
  void* allocate(bytes size, bytes alignment) {
    *reserved += size;
    return host_resource{}.allocate(size, alignment);
  }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    *reserved -= size;
    host_resource{}.deallocate(memory, size, alignment);
  }
};
using arenas = thread_arenas<counted_resource>;
pool_options const options{.first_block = 16_MiB, .next_block = 1_MiB, .growth_percent = 0};

/// A thread with an arena of its own, which is in no call except while `run` runs.
class idle_thread {
 public:
  idle_thread() : thread_{[this] { work(); }} {}
  ~idle_thread() {
    run(nullptr);
    thread_.join();
  }
  idle_thread(idle_thread const&) = delete;
  /// Runs the task in the thread and waits for its end.
  void run(std::function<void()> task) {
    task_ = std::move(task);
    stage_ = 1;
    stage_.notify_all();
    stage_.wait(1);
  }

 private:
  void work() {
    for (bool goes_on = true; goes_on;) {
      stage_.wait(0);
      goes_on = task_ != nullptr;
      if (goes_on) task_();
      stage_ = 0;
      stage_.notify_all();
    }
  }
  std::function<void()> task_;
  std::atomic<int> stage_{0};
  std::thread thread_;
};

using allocations = std::vector<void*>;
allocations allocate(arenas& source, bytes size, std::size_t count) {
  allocations result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(source.allocate(size));
  return result;
}
void deallocate(arenas& source, allocations& freed) {
  for (void* const each : freed) ASSERT_TRUE(source.deallocate(each));
  freed.clear();
}
bool is_sound(arenas& source) {
  auto const problems = source.audit();
  return problems.empty() ? true : (ADD_FAILURE() << problems.front(), false);
}

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

/// Four threads allocate, free each other's slices and release, in a random order. Their counts
/// agree with a naive model, and no two allocations overlap.
TEST(LentSlices, AgreeWithANaiveModel) {
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
TEST(LentSlices, KeepTheirContentsWhileThreadsBorrowAndLend) {
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

}  // namespace lent_slices_test
}  // namespace quarry::test
