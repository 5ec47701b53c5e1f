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
  arenas source{host_resource{},
                {.first_block = 64_KiB, .next_block = 16_KiB, .alignment = alignment}};
  ~of_this_thread() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<of_this_thread> make() { return std::make_unique<of_this_thread>(); }
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { EXPECT_TRUE(source.deallocate(pointer)); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ThreadArenas, ResourceConformance, of_this_thread);

TEST(ThreadArenas, TakeBackWhatAnotherThreadAllocated) {
  arenas source{host_resource{}, {.first_block = 64_KiB}};
  void* const one = source.allocate(100);
  std::thread{[&] {
    EXPECT_TRUE(source.deallocate(one));
    EXPECT_TRUE(source.deallocate(one));  // its pool will tell
  }}.join();
  EXPECT_EQ(source.counts().chunks_allocated, 0u);
  EXPECT_EQ(source.counts().invalid_frees, 1u);
  EXPECT_EQ(source.arenas(), 2u);
  EXPECT_FALSE(source.deallocate(one));
}

TEST(ThreadArenas, LeaveAThreadsArenaToTheNext) {
  arenas source{host_resource{}, {.first_block = 64_KiB}};
  void* kept = nullptr;
  for (int i = 0; i < 5; ++i) {
    std::thread{[&] {
      source.deallocate(kept);
      kept = source.allocate(1000);
    }}.join();
  }
  EXPECT_EQ(source.arenas(), 2u);
  EXPECT_TRUE(source.deallocate(kept));
}

TEST(ThreadArenas, RefuseWhatIsNotTheirsAndPoolsThatAreNotTracked) {
  arenas source{host_resource{}};
  pool<host_resource> other{host_resource{}};
  void* const others = other.allocate(10);
  int local = 0;
  EXPECT_FALSE(source.deallocate(others));
  EXPECT_FALSE(source.deallocate(&local));
  void* const one = source.allocate(100);
  EXPECT_FALSE(source.deallocate(static_cast<char*>(one) + 16));
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
    thread_arenas<counted> source{counted{&blocks}};
    (void)source.allocate(10);
    std::thread{[&] { (void)source.allocate(10); }}.join();
    EXPECT_EQ(blocks, 2);
  }
  EXPECT_EQ(blocks, 0);
}

TEST(ThreadArenas, ServeThingsOfAThreadThatAreDestroyedLast) {
  struct late {
    arenas* source = nullptr;
    void* one = nullptr;
    bool is_right = true;
    ~late() {
      if (source == nullptr) return;
      void* const other = source->allocate(100);
      if (!source->deallocate(one) || !source->deallocate(other)) std::abort();
    }
  };
  arenas source{host_resource{}};
  std::thread{[&] {
    // before the thread's first use of an arena: so destroyed after it
    static thread_local late last;
    last.source = &source;
    last.one = source.allocate(10);
  }}.join();
  void* const own = source.allocate(1);
  EXPECT_TRUE(source.deallocate(own));
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
  thread_arenas<busy_resource> source{busy_resource{&tasks}};
  std::size_t others = 0;
  tasks.at_copy = [&] { others = source.arenas(); };
  std::thread{[&] { EXPECT_TRUE(source.deallocate(source.allocate(10))); }}.join();
  EXPECT_EQ(others, 1u) << "it was made";
  EXPECT_EQ(source.arenas(), 2u);
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
  arenas source{host_resource{}, {.red_zone = 16, .on_overrun = [](std::string const&) {
                                    ++reports;
                                    void* const memory = reported_to->allocate(10);
                                    EXPECT_TRUE(reported_to->deallocate(memory));
                                  }}};
  reported_to = &source;
  auto* const one = static_cast<char*>(source.allocate(10));
  auto* const two = static_cast<char*>(source.allocate(10));
  one[10] = two[10] = 1;
  std::thread{[&] {
    EXPECT_TRUE(source.deallocate(one));
    EXPECT_TRUE(source.deallocate(two));
  }}.join();
  EXPECT_TRUE(source.deallocate(source.allocate(10)));
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(source.counts().overruns, 2u);
  EXPECT_EQ(source.counts().chunks_allocated, 0u);
  EXPECT_TRUE(source.audit().empty());
  alarm(0);
}
#endif

/// Threads that hand each other memory; what is written stays.
TEST(ThreadArenas, KeepWhatThreadsPassOn) {
  arenas source{host_resource{}, {.first_block = 256_KiB}};
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, bytes>> passed;
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random{number};
      for (int i = 0; i < 3000; ++i) {
        bytes const size = 1 + random() % 2000;
        auto* const own = static_cast<unsigned char*>(source.allocate(size));
        std::memset(own, static_cast<int>(size % 251), size);
        std::pair<unsigned char*, bytes> others{nullptr, 0};
        {
          std::lock_guard const reserved{mutex};
          passed.emplace_back(own, size);
          if (passed.size() > 20) {
            std::swap(passed[random() % passed.size()], passed.back());
            others = passed.back();
            passed.pop_back();
          }
        }
        for (bytes at = 0; at < others.second; ++at)
          ASSERT_EQ(others.first[at], others.second % 251);
        ASSERT_TRUE(source.deallocate(others.first));
      }
    });
  }
  for (auto& each : threads) each.join();
  for (auto const& [memory, size] : passed) EXPECT_TRUE(source.deallocate(memory));
}

}  // namespace thread_arenas_test
}  // namespace quarry::test
