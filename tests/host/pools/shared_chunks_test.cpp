// SPDX-License-Identifier: Apache-2.0
// The lock of chunks that several threads use: it excludes, and ThreadSanitizer reports a race if a
// call of the owner does not hold it.
#include "quarry/host/detail/shared_chunks.hpp"

#include "host/pools/run_unordered.hpp"
#include "quarry/host/detail/arena_pool.hpp"
#include "quarry/host/detail/thread_arena.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace shared_chunks_test {

class SharedChunks : public testing::Test {
  void SetUp() override {
    if (!fence_all_threads()) GTEST_SKIP() << "threads cannot fence others on this system";
  }
};

/// The owner and two other threads add to plain numbers. Each pair of numbers is equal whenever the
/// lock is free, and no addition is lost.
TEST_F(SharedChunks, AreUsedByOneThreadAtATime) {
  mutex_held_at_fork mutex;
  shared_chunks chunks;
  ASSERT_TRUE(chunks.share(mutex));
  std::uint64_t first = 0, second = 0, added_by_others = 0;
  std::atomic<bool> is_over{false};
  auto const add = [&] {
    std::uint64_t const before = first;
    first = before + 1;
    EXPECT_EQ(second, before);
    second = before + 1;
  };
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!is_over) {
        shared_chunks::brief_hold const lock{chunks};
        if (!lock) continue;
        add();
        ++added_by_others;
      }
    });
  }
  std::uint64_t rounds = 0;
  bool have_others_added = false;  // a loaded system starts them late
  for (; rounds < 20'000 || (!have_others_added && rounds < 5'000'000); ++rounds) {
    shared_chunks::hold const lock{chunks};
    ASSERT_TRUE(lock);
    add();
    have_others_added = added_by_others > 0;
    if (rounds % 64 == 0) {
      shared_chunks::pause const others_may_add{chunks};
      std::this_thread::yield();
    }
  }
  is_over = true;
  for (auto& each : others) each.join();
  EXPECT_GT(added_by_others, 0u);
  EXPECT_EQ(first, rounds + added_by_others);
}

TEST_F(SharedChunks, AreRefusedWhileTheOwnerHoldsThemAndNotWhileItPauses) {
  mutex_held_at_fork mutex;
  shared_chunks chunks;
  auto const is_free = [&] { return static_cast<bool>(shared_chunks::brief_hold{chunks}); };
  EXPECT_FALSE(is_free()) << "not shared";
  ASSERT_TRUE(chunks.share(mutex));
  EXPECT_TRUE(is_free());
  {
    shared_chunks::hold const lock{chunks};
    EXPECT_FALSE(is_free());
    {
      shared_chunks::pause const others_may_work{chunks};
      EXPECT_TRUE(is_free());
    }
    EXPECT_FALSE(is_free());
  }
  EXPECT_TRUE(is_free());
}

/// Whether a thread of this process sleeps, as a thread does that waits for a mutex.
[[nodiscard]] bool is_asleep(pid_t thread) {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  return text.find(") S ") != std::string::npos;
}

/// Otherwise threads that want the chunks could keep the owner waiting for seconds.
TEST_F(SharedChunks, AreTheOwnersNextIfItWaits) {
  mutex_held_at_fork mutex;
  shared_chunks chunks;
  ASSERT_TRUE(chunks.share(mutex));
  std::optional<shared_chunks::brief_hold> other{std::in_place, chunks};
  ASSERT_TRUE(*other);
  std::atomic<pid_t> id_of_owner{0};
  std::atomic<bool> is_refused{false};
  std::thread owner{[&] {
    id_of_owner = gettid();
    shared_chunks::hold const lock{chunks};
    EXPECT_TRUE(lock);
    while (!is_refused) std::this_thread::yield();
  }};
  while (id_of_owner == 0 || !is_asleep(id_of_owner)) std::this_thread::yield();
  other.reset();
  EXPECT_FALSE(shared_chunks::brief_hold{chunks});
  is_refused = true;
  owner.join();
  EXPECT_TRUE(shared_chunks::brief_hold{chunks});
}

constexpr bytes size = 20'000;

/// Refuses blocks if a test says so, after a call of the test.
struct fallible_resource {
  std::function<void()> const* refusal;
  void* allocate(bytes wanted, bytes alignment) {
    if (*refusal != nullptr) {
      (*refusal)();
      throw std::bad_alloc{};
    }
    return host_resource{}.allocate(wanted, alignment);
  }
  void deallocate(void* memory, bytes freed, bytes alignment) noexcept {
    host_resource{}.deallocate(memory, freed, alignment);
  }
};

/// A pool with slices and chunks. Other threads have freed half of the chunks.
struct used_pool {
  used_pool() : tested{fallible_resource{&refusal}, {.first_block = 16_MiB}} {
    tested.share_slices(slices_mutex);
    if (!tested.share_chunks(chunks_mutex)) throw std::logic_error{"chunks are not shared"};
    for (int i = 0; i < 40; ++i) {
      chunks.push_back(tested.allocate(size));
      returns([&] { return returned.add(tested.allocate(size), [] {}); });
    }
    for (int i = 0; i < 200; ++i) slices.push_back(tested.allocate(1024));
    for (int i = 0; i < 20; ++i) {
      returns([&] { return tested.deallocate(chunks.back()); });
      chunks.pop_back();
    }
  }
  static void returns(std::function<bool()> const& work) {
    if (!work()) throw std::logic_error{"memory is not freed"};
  }
  [[nodiscard]] void* allocate_for_another(bytes wanted = size) {
    return tested.allocate_for_another(wanted, 1, returned, freed_slices);
  }

  mutex_held_at_fork slices_mutex, chunks_mutex;
  std::function<void()> refusal;
  arena_pool<fallible_resource> tested;
  returned_addresses returned;
  returned_slices freed_slices;
  std::vector<void*> chunks, slices;
};

using named_call = std::pair<char const*, std::size_t (*)(used_pool&)>;
/// What the owner may call while other threads allocate. The results keep the compiler from
/// dropping the calls.
constexpr named_call calls_of_owner[] = {
    {"allocate, cached",
     [](used_pool& p) { return std::size_t{p.tested.allocate(size) != nullptr}; }},
    {"allocate, free",
     [](used_pool& p) { return std::size_t{p.tested.allocate(9 * size) != nullptr}; }},
    {"allocate, block",
     [](used_pool& p) { return std::size_t{p.tested.allocate(20_MiB) != nullptr}; }},
    {"allocate, aligned",
     [](used_pool& p) { return std::size_t{p.tested.allocate(size, 4096) != nullptr}; }},
    {"allocate_at_hand",
     [](used_pool& p) { return std::size_t{p.tested.allocate_at_hand(size) != nullptr}; }},
    {"allocate, slice block",
     [](used_pool& p) {
       std::size_t result = 0;
       for (int i = 0; i < 2000; ++i) result += p.tested.allocate(3000) != nullptr;
       return result;
     }},
    {"deallocate", [](used_pool& p) { return std::size_t{p.tested.deallocate(p.chunks[0])}; }},
    {"deallocate, slices",
     [](used_pool& p) {
       std::size_t result = 0;
       for (void* const each : p.slices) result += p.tested.deallocate(each);
       return result;
     }},
    {"deallocate_returned",
     [](used_pool& p) {
       return std::size_t{p.tested.deallocate_returned(p.returned, p.freed_slices)};
     }},
    {"count_freed_elsewhere",
     [](used_pool& p) {
       p.tested.count_freed_elsewhere();
       return std::size_t{0};
     }},
    {"release",
     [](used_pool& p) {
       p.tested.release();
       return std::size_t{0};
     }},
    {"coalesce",
     [](used_pool& p) {
       p.tested.coalesce(40_MiB);
       return std::size_t{0};
     }},
    {"counts", [](used_pool& p) { return p.tested.counts().allocations_in_use; }},
    {"audit", [](used_pool& p) { return p.tested.audit().size(); }},
    {"needs_map_page", [](used_pool& p) { return std::size_t{p.tested.needs_map_page(1024)}; }},
    {"lacks_map_page", [](used_pool& p) { return std::size_t{p.tested.lacks_map_page()}; }},
};

/// Each call of the owner, before and after another thread that frees and allocates.
TEST_F(SharedChunks, AreHeldInEachCallOfTheOwner) {
  for (named_call const& tested : calls_of_owner) {
    for (bool const is_owner_first : {true, false}) {
      SCOPED_TRACE(tested.first);
      used_pool pool;
      std::size_t volatile result = 0;
      auto const call = [&] { result = tested.second(pool); };
      auto const serve = [&] {
        (void)pool.allocate_for_another();          // a chunk of a quick list
        (void)pool.allocate_for_another(9 * size);  // merged chunks
      };
      is_owner_first ? run_unordered(call, serve) : run_unordered(serve, call);
      auto const problems = pool.tested.audit();
      EXPECT_TRUE(problems.empty()) << problems.front();
    }
  }
}

/// Another thread allocates while the resource refuses a block. Then the owner returns blocks and
/// asks once more.
TEST_F(SharedChunks, AreHeldWhileTheOwnerReturnsBlocksForARequest) {
  used_pool pool;
  std::atomic<bool> is_wanted{false}, is_served{false};
  pool.refusal = [&] {
    is_wanted.store(true, std::memory_order_relaxed);
    while (!is_served.load(std::memory_order_relaxed)) std::this_thread::yield();
  };
  std::thread other{[&] {
    while (!is_wanted.load(std::memory_order_relaxed)) std::this_thread::yield();
    EXPECT_NE(pool.allocate_for_another(), nullptr);
    is_served.store(true, std::memory_order_relaxed);
  }};
  EXPECT_THROW((void)pool.tested.allocate(20_MiB), std::bad_alloc);
  other.join();
  pool.refusal = nullptr;
  EXPECT_TRUE(pool.tested.audit().empty());
}

/// Two threads that are not the owner, one after the other.
TEST_F(SharedChunks, ServeOneOtherThreadAtATime) {
  used_pool pool;
  void *first = nullptr, *second = nullptr;
  run_unordered([&] { first = pool.allocate_for_another(); },
                [&] { second = pool.allocate_for_another(); });
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_NE(first, second);
}

/// A freed chunk serves several smaller requests. If their chunks were counted before their
/// allocations, more allocations would be in use than there ever were.
TEST_F(SharedChunks, AreCountedWithTheAllocationsOfOthers) {
  used_pool pool;
  auto const before = pool.tested.counts();
  for (int i = 0; i < 100; ++i) EXPECT_NE(pool.allocate_for_another(5000), nullptr) << i;
  auto const counts = pool.tested.counts();
  EXPECT_EQ(counts.allocations, before.allocations + 100);
  EXPECT_EQ(counts.deallocations, before.deallocations + 40) << "those in the list of returns";
  EXPECT_EQ(counts.allocations_in_use, before.allocations_in_use + 60);
  EXPECT_EQ(counts.allocated, before.allocated + 100 * 5000 - 40 * size);
}

/// A thread is late: it has announced the address, and has not stored it yet when the owner and
/// others look often. Then no announcement is left.
TEST_F(SharedChunks, AreFreedAlthoughAThreadWasLate) {
  thread_arena<host_resource> tested;
  tested.begin(host_resource{}, {.first_block = 16_MiB});
  std::vector<void*> chunks;
  for (int i = 0; i < 20; ++i) chunks.push_back(tested.arena_pool->allocate(size));
  auto const add = [&](auto const& announce) {
    EXPECT_TRUE(tested.returns.add(chunks.back(), announce));
    chunks.pop_back();
  };
  for (int i = 0; i < 2; ++i) {  // the second address finds an array
    add([&] { tested.announce_returns(); });
    tested.free_all_returned();
  }
  std::atomic<bool> is_announced{false}, is_given_up{false};
  std::thread late{[&] {
    add([&] {
      tested.announce_returns();
      is_announced = true;
      while (!is_given_up) std::this_thread::yield();
    });
  }};
  while (!is_announced) std::this_thread::yield();
  while (tested.has_returns) tested.free_returned();
  EXPECT_EQ(tested.arena_pool->counts().allocations_in_use, 18u);
  is_given_up = true;
  late.join();
  tested.free_all_returned();
  EXPECT_EQ(tested.arena_pool->counts().allocations_in_use, 17u);
}

TEST_F(SharedChunks, AreNotSharedByPoolsThatCallFunctionsOfTheirOptions) {
  pool_options const refused[] = {
      {.max_bytes = 1_GiB},
      {.coalesce = heuristic::blocks_releasable(2)},
      {.red_zone = 16},
      {.keeps_backtraces = true},
  };
  for (std::size_t i = 0; i < std::size(refused); ++i) {
    mutex_held_at_fork mutex;
    arena_pool<host_resource> tested{host_resource{}, refused[i]};
    EXPECT_FALSE(tested.share_chunks(mutex)) << i;
  }
}

}  // namespace shared_chunks_test
}  // namespace quarry::test
