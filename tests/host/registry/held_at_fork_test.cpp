// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/held_at_fork.hpp"

#include "quarry/host/detail/fence_all_threads.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"
#include "quarry/host/resources/tracked_resource.hpp"
#include "support/sanitized.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace held_at_fork_test {

using shared_pool = synchronized_resource<pool<host_resource>>;

/// Runs `work` in a child of fork. Returns true if `work` returns true there within 20 seconds.
template <class Work>
[[nodiscard]] bool holds_in_a_child(Work const& work) {
  pid_t const child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that waits for a lock forever
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}
constexpr int children = is_sanitized ? 6 : 30;

/// Returns whether `work` holds in all children, while two threads repeat `busy`.
template <class Busy, class Work>
[[nodiscard]] bool holds_in_children_while(Busy const& busy, Work const& work) {
  alarm(60);
  std::atomic<bool> is_over{false};
  std::atomic<int> runs{0};
  std::array<std::thread, 2> threads;
  for (auto& each : threads) {
    each = std::thread{[&] {
      for (; !is_over; ++runs) busy();
    }};
  }
  while (runs < 100) std::this_thread::yield();
  bool holds = true;
  for (int i = 0; i < children && holds; ++i) holds = holds_in_a_child(work);
  is_over = true;
  for (auto& each : threads) each.join();
  alarm(0);
  return holds;
}

/// Two numbers that a mutex guards. They are equal whenever no thread holds the mutex.
struct pair_of_numbers {
  mutex_held_at_fork mutex;
  int volatile first = 0, second = 0;

  void change() {
    std::lock_guard const guard{mutex};
    first = first + 1;
    for (int volatile i = 0; i < 500;) i = i + 1;
    second = second + 1;
  }
  [[nodiscard]] bool is_consistent() {
    std::lock_guard const guard{mutex};
    return first == second;
  }
};

TEST(HeldAtFork, AChildFindsGuardedStateConsistent) {
  pair_of_numbers numbers;
  EXPECT_TRUE(
      holds_in_children_while([&] { numbers.change(); }, [&] { return numbers.is_consistent(); }));
  EXPECT_TRUE(numbers.is_consistent());
}

TEST(HeldAtFork, MutexesAreHeldUntilTheirDestructionInAnyOrder) {
  alarm(60);
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    std::array<std::unique_ptr<pair_of_numbers>, 3> all;
    for (auto& each : all) each = std::make_unique<pair_of_numbers>();
    auto const are_free = [&] {
      for (auto& each : all) {
        if (each != nullptr) each->change();
      }
      return true;
    };
    EXPECT_TRUE(holds_in_a_child(are_free));
    for (std::size_t const number : order) {
      all[number].reset();
      EXPECT_TRUE(are_free());
      EXPECT_TRUE(holds_in_a_child(are_free));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  alarm(0);
}

TEST(HeldAtFork, AForkWaitsForAThreadThatRegistersAMutexWhileItHoldsAnother) {
  pair_of_numbers numbers;
  auto const busy = [&] {
    std::lock_guard const guard{numbers.mutex};
    numbers.first = numbers.first + 1;
    pair_of_numbers made;
    std::lock_guard const made_guard{made.mutex};
    numbers.second = numbers.second + 1;
  };
  EXPECT_TRUE(holds_in_children_while(busy, [&] { return numbers.is_consistent(); }));
}

TEST(HeldAtFork, AForkHoldsMutexesThatAreLockedInTheOtherOrder) {
  pair_of_numbers older, newer;
  auto const busy = [&] {
    std::lock_guard const guard{older.mutex};
    older.first = older.first + 1;
    newer.change();
    older.second = older.second + 1;
  };
  EXPECT_TRUE(holds_in_children_while(
      busy, [&] { return older.is_consistent() && newer.is_consistent(); }));
}

TEST(HeldAtFork, AForkSkipsMutexesThatItsThreadHolds) {
  alarm(60);
  shared_pool source{host_resource{}};
  bool const holds = source.with([&](pool<host_resource>& guarded) {
    return holds_in_a_child([&] {
      void* const memory = guarded.allocate(100);
      return guarded.deallocate(memory) && registry::allocators().size() == 1;
    });
  });
  EXPECT_TRUE(holds);
  source.deallocate(source.allocate(10, 16), 10, 16);
  alarm(0);
}

/// Allocates from a pool that other threads share.
struct shared_upstream {
  shared_pool* source;
  void* allocate(bytes size, bytes alignment) { return source->allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    source->deallocate(memory, size, alignment);
  }
};

template <class Resource>
[[nodiscard]] bool serves(Resource& source) {
  void* const memory = source.allocate(100, 16);
  bool const is_known = registry::find(memory).has_value();
  source.deallocate(memory, 100, 16);
  return is_known;
}

TEST(HeldAtFork, AChildUsesResourcesThatThreadsShared) {
  auto const is_served = [](auto& source) {
    return holds_in_children_while([&] { (void)serves(source); }, [&] { return serves(source); });
  };
  shared_pool shared{host_resource{}};
  EXPECT_TRUE(is_served(shared));
  synchronized_resource<pool<shared_upstream>> stacked{shared_upstream{&shared}};
  EXPECT_TRUE(is_served(stacked));
  thread_arenas<host_resource> arenas{host_resource{}};
  EXPECT_TRUE(is_served(arenas));
  tracked_resource<shared_upstream> tracked{shared_upstream{&shared}};
  EXPECT_TRUE(is_served(tracked));
}

TEST(HeldAtFork, AChildFreesMemoryOfArenasThatItsThreadDoesNotHave) {
  thread_arenas<host_resource> arenas{host_resource{}};
  std::atomic<void*> passed{nullptr};
  auto const busy = [&] {
    if (void* const passed_memory = passed.exchange(arenas.allocate(100)))
      arenas.deallocate(passed_memory);
  };
  EXPECT_TRUE(holds_in_children_while(busy, [&] {
    void* const passed_memory = passed.exchange(nullptr);
    return passed_memory == nullptr || arenas.deallocate(passed_memory);
  }));
  arenas.deallocate(passed);
}

/// Threads free each other's slices and borrow memory. The child borrows from arenas of threads
/// that it does not have.
TEST(HeldAtFork, AChildBorrowsMemoryOfArenasThatItsThreadDoesNotHave) {
  thread_arenas<host_resource> arenas{host_resource{}, {.first_block = 16_MiB}};
  using allocations = std::vector<void*>;
  auto const allocate = [&] {
    auto result = std::make_unique<allocations>();
    for (int i = 0; i < 20'000; ++i) result->push_back(arenas.allocate(64));
    return result;
  };
  auto const free_all = [&](std::unique_ptr<allocations> const& freed) {
    return freed == nullptr || std::all_of(freed->begin(), freed->end(),
                                           [&](void* memory) { return arenas.deallocate(memory); });
  };
  std::atomic<allocations*> passed{nullptr};
  auto const pass_on = [&] {
    std::unique_ptr<allocations> const taken{passed.exchange(allocate().release())};
    (void)free_all(taken);
  };
  EXPECT_TRUE(holds_in_children_while(
      pass_on, [&] { return free_all(allocate()) && arenas.audit().empty(); }));
  EXPECT_TRUE(free_all(std::unique_ptr<allocations>{passed.exchange(nullptr)}));
}

/// Gives blocks until a test says otherwise.
struct ending_resource {
  std::atomic<bool>* is_empty;
  void* allocate(bytes size, bytes alignment) {
    if (*is_empty) throw std::bad_alloc{};
    return host_resource{}.allocate(size, alignment);
  }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    host_resource{}.deallocate(memory, size, alignment);
  }
};

/// The arena of the forking thread has the only memory, and other threads allocate there.
TEST(HeldAtFork, AChildUsesItsArenaAlthoughOthersAllocatedThere) {
  if (!fence_all_threads()) GTEST_SKIP() << "threads cannot fence others on this system";
  std::atomic<bool> is_empty{false};
  thread_arenas<ending_resource> arenas{ending_resource{&is_empty}, {.first_block = 16_MiB}};
  std::atomic<void*> given[64];
  for (auto& each : given) each = arenas.allocate(128_KiB);
  is_empty = true;
  std::atomic<int> served{0};
  auto const busy = [&] {
    for (auto& each : given) arenas.deallocate(each.exchange(nullptr));
    try {
      void* const memory = arenas.allocate(200_KiB);
      EXPECT_TRUE(arenas.deallocate(memory));
      ++served;
    } catch (std::bad_alloc const&) {  // the other thread has the memory
    }
  };
  EXPECT_TRUE(holds_in_children_while(busy, [&] {
    void* const memory = arenas.allocate(300_KiB);
    return arenas.deallocate(memory) && arenas.audit().empty();
  }));
  EXPECT_GT(served, 0);
}

/// Whether a child refuses the object of a call that waited for the forking thread, and serves all
/// others.
[[nodiscard]] bool refuses_only(shared_pool& lost, void* of_lost, shared_pool& other) {
  try {
    (void)lost.allocate(100, 16);
    return false;
  } catch (bad_state const&) {
  }
  lost.deallocate(of_lost, 100, 16);  // does nothing
  return serves(other);
}

TEST(HeldAtFork, AChildIsRefusedTheObjectOfACallThatWaitsForTheForkingThread) {
  alarm(60);
  shared_pool lost{host_resource{}}, other{host_resource{}};
  void* const of_lost = lost.allocate(100, 16);
  std::atomic<bool> is_in_call{false}, is_over{false};
  std::thread caller{[&] {
    lost.with([&](pool<host_resource>&) {
      is_in_call = true;
      is_in_call.notify_all();
      is_over.wait(false);
    });
  }};
  is_in_call.wait(false);
  EXPECT_TRUE(holds_in_a_child([&] {
    return refuses_only(lost, of_lost, other) &&
           holds_in_a_child([&] { return refuses_only(lost, of_lost, other); });
  }));
  EXPECT_TRUE(serves(other));
  is_over = true;
  is_over.notify_all();
  caller.join();
  EXPECT_TRUE(serves(lost));
  lost.deallocate(of_lost, 100, 16);
  EXPECT_TRUE(holds_in_a_child([&] { return serves(lost) && serves(other); }));
  alarm(0);
}

/// As in the report on mimalloc's children of a thread that is not the first: the child allocates,
/// frees, makes a thread, and ends by exit(), which runs the destructors of the process.
TEST(HeldAtFork, AChildOfAThreadThatIsNotTheFirstWorksUntilItsExit) {
  static thread_arenas<host_resource> arenas{host_resource{}};
  static shared_pool shared{host_resource{}};
  void* const first = arenas.allocate(100);
  void* const second = shared.allocate(100, 16);
  auto const fork_and_wait = [&] {
    void* const own = arenas.allocate(100);
    pid_t const child = fork();
    if (child == 0) {
      alarm(20);
      bool is_right = arenas.deallocate(own) && arenas.deallocate(first);
      shared.deallocate(second, 100, 16);
      is_right = is_right && serves(arenas) && serves(shared);
#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer ends a child that makes a thread
      std::thread{[&] { is_right = is_right && serves(arenas) && serves(shared); }}.join();
#endif
      // AddressSanitizer reports the memory of the parent's other threads as leaked. A lock of
      // ThreadSanitizer's own may be held by one of them for ever; destructors need it.
#if QUARRY_ADDRESS_SANITIZER || defined(__SANITIZE_THREAD__)
      _exit(is_right ? 0 : 1);
#else
      std::exit(is_right ? 0 : 1);
#endif
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(arenas.deallocate(own));
  };
  std::array<std::thread, 2> threads;
  for (auto& each : threads) each = std::thread{fork_and_wait};
  for (auto& each : threads) each.join();
  EXPECT_TRUE(arenas.deallocate(first));
  shared.deallocate(second, 100, 16);
}

}  // namespace held_at_fork_test
}  // namespace quarry::test
