// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/thread_arenas.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

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
bool const is_registered = conforms("ThreadArenas", testing::Types<of_this_thread>{});

TEST(ThreadArenas, FreeMemoryThatAnotherThreadAllocated) {
  arenas source{host_resource{}, {.first_block = 64_KiB}};
  void* const memory = source.allocate(100);
  std::thread{[&] {
    EXPECT_TRUE(source.deallocate(memory));
    EXPECT_TRUE(source.deallocate(memory));  // the owning arena will count the double free
  }}.join();
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
  EXPECT_EQ(source.counts().invalid_frees, 1u);
  EXPECT_EQ(source.arenas(), 1u);  // a thread that only frees needs none
  EXPECT_FALSE(source.deallocate(memory));
}

TEST(ThreadArenas, PassAnEndedThreadsArenaToTheNextThread) {
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

TEST(ThreadArenas, RefuseForeignPointersAndUntrackedPools) {
  arenas source{host_resource{}};
  pool<host_resource> second{host_resource{}};
  void* const foreign = second.allocate(10);
  int local = 0;
  EXPECT_FALSE(source.deallocate(foreign));
  EXPECT_FALSE(source.deallocate(&local));
  void* const first = source.allocate(100);
  EXPECT_FALSE(source.deallocate(static_cast<char*>(first) + 16));
  EXPECT_THROW((arenas{host_resource{}, {.is_tracked = false}}), bad_argument);
  EXPECT_THROW((thread_arenas<simulated_resource>{simulated_resource{}}), bad_argument);
  EXPECT_THROW((arenas{host_resource{}, {.alignment = 3}}), bad_argument);
}

/// Also where slices could serve the size.
TEST(ThreadArenas, RefuseAlignmentsThatAreNoPowersOfTwo) {
  arenas source{host_resource{}};
  std::vector<void*> all;
  for (int i = 0; i < 2000; ++i) all.push_back(source.allocate(100));
  for (bytes const size : {bytes{100}, 64_KiB}) {
    EXPECT_THROW((void)source.allocate(size, 0), bad_argument);
    EXPECT_THROW((void)source.allocate(size, 24), bad_argument);
  }
  for (void* const each : all) EXPECT_TRUE(source.deallocate(each));
}

/// Counts the blocks that the arenas have.
struct counted_resource {
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
using counted_arenas = thread_arenas<counted_resource>;

TEST(ThreadArenas, ReturnAllMemoryWhenTheyAreDestroyed) {
  std::atomic<int> blocks{0};
  {
    counted_arenas source{counted_resource{&blocks}};
    (void)source.allocate(10);
    std::thread{[&] { (void)source.allocate(10); }}.join();
    EXPECT_EQ(blocks, 2);
  }
  EXPECT_EQ(blocks, 0);
}

/// Allocations of a thread that then makes no more calls, as in the report on mimalloc's frees from
/// another thread.
std::vector<void*> eight_blocks(counted_arenas& source) {
  std::vector<void*> result;
  for (int i = 0; i < 8; ++i) result.push_back(source.allocate(1_MiB));
  return result;
}
pool_options const one_block_each{.first_block = 1_MiB, .next_block = 1_MiB};

TEST(ThreadArenas, FreeAtOnceInTheArenaOfAThreadThatEnded) {
  std::atomic<int> blocks{0};
  counted_arenas source{counted_resource{&blocks}, one_block_each};
  std::vector<void*> memory;
  std::thread{[&] { memory = eight_blocks(source); }}.join();
  EXPECT_EQ(blocks, 8);
  for (void* const each : memory) EXPECT_TRUE(source.deallocate(each));
  EXPECT_FALSE(source.deallocate(memory[0])) << "the arena has freed it already";
  source.release();
  EXPECT_EQ(blocks, 0);
}

TEST(ThreadArenas, FreeAtOnceInAnArenaThatItsThreadLeft) {
  std::atomic<int> blocks{0};
  counted_arenas source{counted_resource{&blocks}, one_block_each};
  std::atomic<int> stage{0};
  std::vector<void*> memory;
  std::thread idle{[&] {
    memory = eight_blocks(source);
    source.leave();
    source.leave();  // has no arena now, so this does nothing
    stage = 1;
    stage.notify_all();
    stage.wait(1);
    EXPECT_TRUE(source.deallocate(source.allocate(10))) << "the thread takes an arena again";
  }};
  stage.wait(0);
  for (void* const each : memory) EXPECT_TRUE(source.deallocate(each));
  source.release();
  EXPECT_EQ(blocks, 0) << "the other thread made no call";
  EXPECT_EQ(source.arenas(), 2u);
  stage = 2;
  stage.notify_all();
  idle.join();
  EXPECT_EQ(source.arenas(), 2u);
}

TEST(ThreadArenas, ReleaseWhatWasFreedBeforeTheThreadEnded) {
  std::atomic<int> blocks{0};
  counted_arenas source{counted_resource{&blocks}, one_block_each};
  std::atomic<int> stage{0};
  std::vector<void*> memory;
  std::thread owner{[&] {
    memory = eight_blocks(source);
    stage = 1;
    stage.notify_all();
    stage.wait(1);
  }};
  stage.wait(0);
  for (void* const each : memory) EXPECT_TRUE(source.deallocate(each));
  source.release();
  EXPECT_EQ(blocks, 8) << "the other thread has its arena still";
  stage = 2;
  stage.notify_all();
  owner.join();
  source.release();
  EXPECT_EQ(blocks, 0);
}

/// Allocations that threads pass to each other, of one or two instances.
class passed_memory {
 public:
  /// `max_size`: of an allocation. If `unit` is more than 1, each size is a multiple of `unit`.
  explicit passed_memory(std::vector<counted_arenas*> sources, bytes max_size = 2000,
                         bytes unit = 1)
      : sources_{std::move(sources)}, max_units_{max_size / unit}, unit_{unit} {}

  /// Runs three threads. Each allocates, frees what another thread allocated, and checks that the
  /// contents are unchanged. With `leaves`, the threads also leave their arenas and release.
  void run(bool leaves) {
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 3; ++number)
      threads.emplace_back([this, number, leaves] { work(number, leaves); });
    for (auto& each : threads) each.join();
    for (entry const& each : passed_) EXPECT_TRUE(each.source->deallocate(each.memory));
    for (counted_arenas* const source : sources_) source->release();
  }

 private:
  struct entry {
    counted_arenas* source = nullptr;
    unsigned char* memory = nullptr;
    bytes size = 0;
  };
  /// Adds an allocation and takes another one out, if there are many.
  entry exchange(entry const& added, std::mt19937& random) {
    std::lock_guard const guard{mutex_};
    passed_.push_back(added);
    if (passed_.size() <= 20) return {};
    std::swap(passed_[random() % passed_.size()], passed_.back());
    entry const taken = passed_.back();
    passed_.pop_back();
    return taken;
  }
  void work(unsigned seed, bool leaves) {
    std::mt19937 random{seed};
    auto const any_source = [&] { return sources_[random() % sources_.size()]; };
    for (int i = 0; i < 3000; ++i) {
      entry added{any_source(), nullptr, (1 + random() % max_units_) * unit_};
      added.memory = static_cast<unsigned char*>(added.source->allocate(added.size));
      std::memset(added.memory, static_cast<int>(added.size % 251), added.size);
      entry const taken = exchange(added, random);
      if (leaves && random() % 8 == 0) any_source()->leave();
      for (bytes at = 0; at < taken.size; ++at) ASSERT_EQ(taken.memory[at], taken.size % 251);
      if (taken.source != nullptr) {
        ASSERT_TRUE(taken.source->deallocate(taken.memory));
      }
      if (leaves && random() % 32 == 0) any_source()->release();
    }
  }

  std::vector<counted_arenas*> const sources_;
  bytes const max_units_, unit_;
  std::mutex mutex_;
  std::vector<entry> passed_;
};
pool_options const small_blocks{.first_block = 64_KiB, .next_block = 16_KiB};

TEST(ThreadArenas, KeepTheContentsOfMemoryThatThreadsPassOn) {
  std::atomic<int> blocks{0};
  counted_arenas source{counted_resource{&blocks}, {.first_block = 256_KiB}};
  passed_memory{{&source}}.run(false);
  EXPECT_EQ(blocks, 0);
}

/// The sizes are few, so that slices serve most requests.
TEST(ThreadArenas, KeepTheContentsOfSlicesThatThreadsPassOn) {
  for (bool const leaves : {false, true}) {
    std::atomic<int> blocks{0};
    counted_arenas source{counted_resource{&blocks}, {.first_block = 16_MiB}};
    passed_memory{{&source}, 2048, 512}.run(leaves);
    EXPECT_EQ(blocks, 0);
  }
}

/// Threads leave and release while others free into their arenas. No allocation is lost.
TEST(ThreadArenas, MayBeLeftAndReleasedWhileThreadsPassMemoryOn) {
  std::atomic<int> blocks{0};
  counted_arenas source{counted_resource{&blocks}, small_blocks};
  passed_memory{{&source}}.run(true);
  EXPECT_EQ(blocks, 0);
}

/// The same threads use two instances. Each instance gets all of its own blocks back.
TEST(ThreadArenas, OfTwoInstancesMayBeLeftWhileThreadsPassMemoryOn) {
  std::atomic<int> first_blocks{0}, second_blocks{0};
  auto first = std::make_unique<counted_arenas>(counted_resource{&first_blocks}, small_blocks);
  counted_arenas second{counted_resource{&second_blocks}, small_blocks};
  passed_memory{{first.get(), &second}}.run(true);
  EXPECT_EQ(first_blocks, 0);
  EXPECT_EQ(second_blocks, 0);
  void* const kept = second.allocate(100);
  EXPECT_FALSE(first->deallocate(kept)) << "the other instance allocated it";
  first.reset();
  passed_memory{{&second}}.run(true);
  EXPECT_TRUE(second.deallocate(kept));
}

/// A thread leaves one instance and keeps its arena of the other.
TEST(ThreadArenas, AreLeftOneInstanceAtATime) {
  std::atomic<int> first_blocks{0}, second_blocks{0};
  counted_arenas first{counted_resource{&first_blocks}, one_block_each};
  counted_arenas second{counted_resource{&second_blocks}, one_block_each};
  std::atomic<int> stage{0};
  std::vector<void*> of_first, of_second;
  std::thread idle{[&] {
    of_first = eight_blocks(first);
    of_second = eight_blocks(second);
    first.leave();
    stage = 1;
    stage.notify_all();
    stage.wait(1);
    EXPECT_EQ(second.counts().allocations_in_use, 0u) << "the call frees what was returned";
    second.release();
  }};
  stage.wait(0);
  for (void* const each : of_first) EXPECT_TRUE(first.deallocate(each));
  for (void* const each : of_second) EXPECT_TRUE(second.deallocate(each));
  first.release();
  second.release();
  EXPECT_EQ(first_blocks, 0);
  EXPECT_EQ(second_blocks, 8) << "the thread still has its arena of this instance";
  stage = 2;
  stage.notify_all();
  idle.join();
  EXPECT_EQ(second_blocks, 0);
}

TEST(ThreadArenas, ServeTheLastDestructorsOfAThread) {
  struct late_user {
    arenas* source = nullptr;
    void* first = nullptr;
    bool is_right = true;
    ~late_user() {
      if (source == nullptr) return;
      void* const second = source->allocate(100);
      if (!source->deallocate(first) || !source->deallocate(second)) std::abort();
    }
  };
  arenas source{host_resource{}};
  std::thread{[&] {
    // The object exists before the thread's first use of an arena, so its destructor runs after the
    // arena's.
    static thread_local late_user last;
    last.source = &source;
    last.first = source.allocate(10);
  }}.join();
  void* const memory = source.allocate(1);
  EXPECT_TRUE(source.deallocate(memory));
}

/// What two threads have done, as numbers that only grow.
class stages {
 public:
  void reach(int next) {
    std::lock_guard const guard{mutex_};
    stage_ = next;
    changed_.notify_all();
  }
  void wait_for(int wanted) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return stage_ >= wanted; });
  }
  [[nodiscard]] int last() const { return stage_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int stage_ = 0;  // Guarded by: mutex_; read without it when one thread is left
};

TEST(ThreadArenas, MayBeDestroyedBeforeAThreadThatUsedThem) {
  auto first = std::make_unique<arenas>(host_resource{});
  arenas second{host_resource{}};
  stages stage;
  std::thread user{[&] {
    first->deallocate(first->allocate(10));
    stage.reach(1);
    stage.wait_for(2);
    second.deallocate(second.allocate(10));
  }};
  stage.wait_for(1);
  first.reset();
  stage.reach(2);
  user.join();
}

/// Runs a task once, in another thread, at the next copy and at the next deallocation.
struct busy_resource {
  struct tasks {
    std::function<void()> at_copy, at_deallocation;
  };
  tasks* all;
  explicit busy_resource(tasks* list) : all{list} {}
  busy_resource(busy_resource const& other) : all{other.all} { run(all->at_copy); }
  busy_resource& operator=(busy_resource const& other) = default;
  void* allocate(bytes size, bytes alignment) { return host_resource{}.allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    run(all->at_deallocation);
    host_resource{}.deallocate(memory, size, alignment);
  }
  static void run(std::function<void()>& task) {
    if (auto const work = std::exchange(task, nullptr)) std::thread{work}.join();
  }
};

TEST(ThreadArenas, HoldNoLockWhileTheyCopyAResource) {
  alarm(30);  // ends a test that waits for a lock forever
  busy_resource::tasks tasks;
  thread_arenas<busy_resource> source{busy_resource{&tasks}};
  std::size_t arena_count = 0;
  tasks.at_copy = [&] { arena_count = source.arenas(); };
  std::thread{[&] { EXPECT_TRUE(source.deallocate(source.allocate(10))); }}.join();
  EXPECT_EQ(arena_count, 1u) << "the other thread's arena was made";
  EXPECT_EQ(source.arenas(), 2u);
  alarm(0);
}

TEST(ThreadArenas, HoldNoLockWhileTheyReturnBlocks) {
  alarm(30);
  busy_resource::tasks tasks, no_tasks;
  auto first = std::make_unique<thread_arenas<busy_resource>>(busy_resource{&tasks});
  thread_arenas<busy_resource> second{busy_resource{&no_tasks}};
  stages stage;
  // This thread has an arena of `first` and of `second`. It inspects the first arena when it gets
  // the second.
  std::thread user{[&] {
    EXPECT_TRUE(first->deallocate(first->allocate(10)));
    stage.reach(1);
    stage.wait_for(2);
    EXPECT_TRUE(second.deallocate(second.allocate(10)));
    stage.reach(3);
  }};
  stage.wait_for(1);
  tasks.at_deallocation = [&] {
    stage.reach(2);
    stage.wait_for(3);
  };
  first.reset();
  EXPECT_EQ(stage.last(), 3);
  user.join();
  alarm(0);
}

#if !QUARRY_ADDRESS_SANITIZER  // AddressSanitizer reports the write itself
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
  auto* const first = static_cast<char*>(source.allocate(10));
  auto* const second = static_cast<char*>(source.allocate(10));
  first[10] = second[10] = 1;
  std::thread{[&] {
    EXPECT_TRUE(source.deallocate(first));
    EXPECT_TRUE(source.deallocate(second));
  }}.join();
  EXPECT_TRUE(source.deallocate(source.allocate(10)));
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(source.counts().overruns, 2u);
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
  EXPECT_TRUE(source.audit().empty());
  alarm(0);
}
#endif

}  // namespace thread_arenas_test
}  // namespace quarry::test
