// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/thread_arenas.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

namespace quarry::test {
namespace thread_arenas_test {

using arenas = thread_arenas<host_resource>;

struct of_this_thread {
  static constexpr bytes alignment = 64;
  static constexpr bool is_touchable = true;
  arenas from{host_resource{},
              {.first_block = 64_KiB, .next_block = 16_KiB, .alignment = alignment}};
  ~of_this_thread() { EXPECT_TRUE(from.audit().empty()); }
  static std::unique_ptr<of_this_thread> make() { return std::make_unique<of_this_thread>(); }
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes) { EXPECT_TRUE(from.deallocate(pointer)); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ThreadArenas, ResourceConformance, of_this_thread);

TEST(ThreadArenas, TakeBackWhatAnotherThreadAllocated) {
  arenas from{host_resource{}, {.first_block = 64_KiB}};
  void* const one = from.allocate(100);
  std::thread{[&] {
    EXPECT_TRUE(from.deallocate(one));
    EXPECT_TRUE(from.deallocate(one));  // its pool will tell
  }}.join();
  EXPECT_EQ(from.counts().chunks_allocated, 0u);
  EXPECT_EQ(from.counts().invalid_frees, 1u);
  EXPECT_EQ(from.arenas(), 2u);
  EXPECT_FALSE(from.deallocate(one));
}

TEST(ThreadArenas, LeaveAThreadsArenaToTheNext) {
  arenas from{host_resource{}, {.first_block = 64_KiB}};
  void* kept = nullptr;
  for (int i = 0; i < 5; ++i) {
    std::thread{[&] {
      from.deallocate(kept);
      kept = from.allocate(1000);
    }}.join();
  }
  EXPECT_EQ(from.arenas(), 2u);
  EXPECT_TRUE(from.deallocate(kept));
}

TEST(ThreadArenas, RefuseWhatIsNotTheirsAndPoolsThatAreNotTracked) {
  arenas from{host_resource{}};
  pool<host_resource> other{host_resource{}};
  void* const others = other.allocate(10);
  int local = 0;
  EXPECT_FALSE(from.deallocate(others));
  EXPECT_FALSE(from.deallocate(&local));
  void* const one = from.allocate(100);
  EXPECT_FALSE(from.deallocate(static_cast<char*>(one) + 16));
  EXPECT_THROW((arenas{host_resource{}, {.is_tracked = false}}), bad_argument);
  EXPECT_THROW((thread_arenas<simulated_resource>{simulated_resource{}}), bad_argument);
  EXPECT_THROW((arenas{host_resource{}, {.alignment = 3}}), bad_argument);
}

TEST(ThreadArenas, GiveEverythingBackWhenTheyAreDestroyed) {
  struct counted {
    std::atomic<int>* blocks;
    void* allocate(bytes size, bytes alignment) {
      ++*blocks;
      return host_resource{}.allocate(size, alignment);
    }
    void deallocate(void* memory, bytes size, bytes alignment) noexcept {
      --*blocks;
      host_resource{}.deallocate(memory, size, alignment);
    }
  };
  std::atomic<int> blocks{0};
  {
    thread_arenas<counted> from{counted{&blocks}};
    (void)from.allocate(10);
    std::thread{[&] { (void)from.allocate(10); }}.join();
    EXPECT_EQ(blocks, 2);
  }
  EXPECT_EQ(blocks, 0);
}

TEST(ThreadArenas, ServeThingsOfAThreadThatAreDestroyedLast) {
  struct late {
    arenas* from = nullptr;
    void* one = nullptr;
    bool is_right = true;
    ~late() {
      if (from == nullptr) return;
      void* const other = from->allocate(100);
      if (!from->deallocate(one) || !from->deallocate(other)) std::abort();
    }
  };
  arenas from{host_resource{}};
  std::thread{[&] {
    // before the thread's first use of an arena: so destroyed after it
    static thread_local late last;
    last.from = &from;
    last.one = from.allocate(10);
  }}.join();
  void* const mine = from.allocate(1);
  EXPECT_TRUE(from.deallocate(mine));
}

TEST(ThreadArenas, MayBeDestroyedBeforeAThreadThatUsedThem) {
  auto first = std::make_unique<arenas>(host_resource{});
  arenas second{host_resource{}};
  std::mutex mutex;
  std::condition_variable changed;
  int stage = 0;
  auto const reach = [&](int next) {
    std::lock_guard const reserved{mutex};
    stage = next;
    changed.notify_all();
  };
  auto const wait_for = [&](int wanted) {
    std::unique_lock reserved{mutex};
    changed.wait(reserved, [&] { return stage >= wanted; });
  };
  std::thread user{[&] {
    first->deallocate(first->allocate(10));
    reach(1);
    wait_for(2);
    second.deallocate(second.allocate(10));
  }};
  wait_for(1);
  first.reset();
  reach(2);
  user.join();
}

/// A resource that does something else, once, each time that it is copied or gives memory back.
struct busy_resource {
  struct tasks {
    std::function<void()> at_copy, at_deallocation;
  };
  tasks* all;
  explicit busy_resource(tasks* its) : all{its} {}
  busy_resource(busy_resource const& other) : all{other.all} { run(all->at_copy); }
  busy_resource& operator=(busy_resource const& other) = default;
  void* allocate(bytes size, bytes alignment) { return host_resource{}.allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    run(all->at_deallocation);
    host_resource{}.deallocate(memory, size, alignment);
  }
  static void run(std::function<void()>& task) {
    if (auto const once = std::exchange(task, nullptr)) std::thread{once}.join();
  }
};

TEST(ThreadArenas, HoldNoLockWhileTheyCopyAResource) {
  alarm(30);  // ends a test that waits for a lock for ever
  busy_resource::tasks tasks;
  thread_arenas<busy_resource> from{busy_resource{&tasks}};
  std::size_t others = 0;
  tasks.at_copy = [&] { others = from.arenas(); };
  std::thread{[&] { EXPECT_TRUE(from.deallocate(from.allocate(10))); }}.join();
  EXPECT_EQ(others, 1u) << "it was made";
  EXPECT_EQ(from.arenas(), 2u);
  alarm(0);
}

TEST(ThreadArenas, HoldNoLockWhileTheirBlocksGoBack) {
  alarm(30);
  busy_resource::tasks tasks, no_tasks;
  auto first = std::make_unique<thread_arenas<busy_resource>>(busy_resource{&tasks});
  thread_arenas<busy_resource> second{busy_resource{&no_tasks}};
  std::mutex mutex;
  std::condition_variable changed;
  int stage = 0;
  auto const reach = [&](int next) {
    std::lock_guard const reserved{mutex};
    stage = next;
    changed.notify_all();
  };
  auto const wait_for = [&](int wanted) {
    std::unique_lock reserved{mutex};
    changed.wait(reserved, [&] { return stage >= wanted; });
  };
  // This thread has an arena of both, and looks at the first one's state when it gets its second.
  std::thread user{[&] {
    EXPECT_TRUE(first->deallocate(first->allocate(10)));
    reach(1);
    wait_for(2);
    EXPECT_TRUE(second.deallocate(second.allocate(10)));
    reach(3);
  }};
  wait_for(1);
  tasks.at_deallocation = [&] {
    reach(2);
    wait_for(3);
  };
  first.reset();
  EXPECT_EQ(stage, 3);
  user.join();
  alarm(0);
}

#if !QUARRY_ADDRESS_SANITIZER  // which reports the write itself
arenas* reported_to = nullptr;
int reports = 0;
TEST(ThreadArenas, MayBeUsedByTheReportOfAnOverrun) {
  alarm(30);
  arenas from{host_resource{}, {.red_zone = 16, .on_overrun = [](std::string const&) {
                                  ++reports;
                                  void* const memory = reported_to->allocate(10);
                                  EXPECT_TRUE(reported_to->deallocate(memory));
                                }}};
  reported_to = &from;
  auto* const one = static_cast<char*>(from.allocate(10));
  auto* const two = static_cast<char*>(from.allocate(10));
  one[10] = two[10] = 1;
  std::thread{[&] {
    EXPECT_TRUE(from.deallocate(one));
    EXPECT_TRUE(from.deallocate(two));
  }}.join();
  EXPECT_TRUE(from.deallocate(from.allocate(10)));
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(from.counts().overruns, 2u);
  EXPECT_EQ(from.counts().chunks_allocated, 0u);
  EXPECT_TRUE(from.audit().empty());
  alarm(0);
}
#endif

/// Threads that hand each other memory; what is written stays.
TEST(ThreadArenas, KeepWhatThreadsPassOn) {
  arenas from{host_resource{}, {.first_block = 256_KiB}};
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, bytes>> passed;
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random{number};
      for (int i = 0; i < 3000; ++i) {
        bytes const size = 1 + random() % 2000;
        auto* const mine = static_cast<unsigned char*>(from.allocate(size));
        std::memset(mine, static_cast<int>(size % 251), size);
        std::pair<unsigned char*, bytes> others{nullptr, 0};
        {
          std::lock_guard const reserved{mutex};
          passed.emplace_back(mine, size);
          if (passed.size() > 20) {
            std::swap(passed[random() % passed.size()], passed.back());
            others = passed.back();
            passed.pop_back();
          }
        }
        for (bytes at = 0; at < others.second; ++at)
          ASSERT_EQ(others.first[at], others.second % 251);
        ASSERT_TRUE(from.deallocate(others.first));
      }
    });
  }
  for (auto& each : threads) each.join();
  for (auto const& [memory, size] : passed) EXPECT_TRUE(from.deallocate(memory));
}

}  // namespace thread_arenas_test
}  // namespace quarry::test
