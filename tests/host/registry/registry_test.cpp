// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/registry.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <sstream>
#include <thread>

namespace quarry::test {
namespace registry_test {

using namespace quarry::literals;

using host_pool = pool<host_resource>;
std::byte* at(void* pointer, bytes offset) { return static_cast<std::byte*>(pointer) + offset; }

TEST(Registry, FindsAnAllocationByEachOfItsBytes) {
  host_pool source{host_resource{}, {.first_block = 1_MiB, .name = "fields"}};
  void* const preceding = source.allocate(100);
  void* const memory = source.allocate(1000);
  void* const following = source.allocate(100);
  for (bytes const offset : {0, 1, 500, 999}) {
    auto const found = registry::find(at(memory, offset));
    ASSERT_TRUE(found) << offset;
    EXPECT_EQ(found->base, memory);
    EXPECT_EQ(found->size, 1000u);
    EXPECT_EQ(found->allocator, source.id());
    EXPECT_EQ(found->location, memory_location{});
  }
  EXPECT_EQ(registry::name_of(source.id()), "fields");
  for (void* const each : {preceding, memory, following}) source.deallocate(each);
}

TEST(Registry, FindsNothingAtUnallocatedAddresses) {
  int local = 0;
  EXPECT_FALSE(registry::find(nullptr));
  EXPECT_FALSE(registry::find(&local));
  EXPECT_FALSE(registry::find(reinterpret_cast<void*>(~std::uint64_t{0})));
  void* freed = nullptr;
  {
    host_pool source{host_resource{}, {.first_block = 1_MiB}};
    freed = source.allocate(1000);
    EXPECT_FALSE(registry::find(at(freed, 1000)));
    EXPECT_FALSE(registry::find(at(freed, 100'000)));
    source.deallocate(freed);
    EXPECT_FALSE(registry::find(freed));
    freed = source.allocate(1000);
  }
  EXPECT_FALSE(registry::find(freed));
}

TEST(Registry, DistinguishesPoolsThatShareAPage) {
  host_pool pools[3] = {host_pool{host_resource{}, {.first_block = 1_KiB, .next_block = 1_KiB}},
                        host_pool{host_resource{}, {.first_block = 1_KiB, .next_block = 1_KiB}},
                        host_pool{host_resource{}, {.first_block = 1_KiB, .next_block = 1_KiB}}};
  std::map<void*, allocator_id> allocated;
  for (int round = 0; round < 40; ++round) {
    for (auto& source : pools) allocated[source.allocate(600)] = source.id();
  }
  for (auto const& [pointer, id] : allocated) {
    auto const found = registry::find(at(pointer, 599));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->allocator, id);
  }
  for (auto const& [pointer, id] : allocated) {
    for (auto& source : pools) {
      EXPECT_EQ(source.deallocate(pointer), source.id() == id);
    }
    EXPECT_FALSE(registry::find(pointer));
  }
  for (auto& source : pools) source.release();
  for (auto const& [pointer, id] : allocated) EXPECT_FALSE(registry::find(pointer));
}

TEST(Registry, FindsTheInnermostOfStackedPools) {
  using inner_pool = pool<synchronized_resource<host_pool>>;
  inner_pool source{synchronized_resource<host_pool>{
                        host_resource{}, pool_options{.first_block = 1_MiB, .name = "outer"}},
                    {.first_block = 100_KiB, .name = "inner"}};
  void* const memory = source.allocate(1000);
  auto const found = registry::find(at(memory, 10));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size, 1000u);
  EXPECT_EQ(registry::name_of(found->allocator), "inner");
  auto const around = registry::find(at(memory, 5000));
  ASSERT_TRUE(around);
  EXPECT_EQ(registry::name_of(around->allocator), "outer");
  source.deallocate(memory);
}

TEST(Registry, KeepsALabelAndItsSourceLineUntilTheFree) {
  host_pool source{host_resource{}, {.first_block = 1_MiB}};
  void* const named = source.allocate(64, "density");
  auto const line = std::source_location::current().line() - 1;
  auto const label = registry::label_of(at(named, 63));
  ASSERT_TRUE(label);
  EXPECT_EQ(label->name, "density");
  EXPECT_EQ(label->call_site.line(), line);
  EXPECT_NE(std::string{label->call_site.file_name()}.find("registry_test"), std::string::npos);
  source.deallocate(named);
  void* const reused = source.allocate(64);
  EXPECT_EQ(reused, named);
  EXPECT_FALSE(registry::label_of(reused));
  EXPECT_FALSE(source.label(at(reused, 16), "a middle"));
  EXPECT_TRUE(source.label(reused, "velocity"));
  EXPECT_EQ(registry::label_of(reused)->name, "velocity");
}

TEST(Registry, ReportsAllocationsInUse) {
  host_pool source{host_resource{}, {.first_block = 1_MiB, .name = "leaky"}};
  (void)source.allocate(100, "lost");
  (void)source.allocate(23);
  EXPECT_EQ(registry::allocations(source.id()).size(), 2u);
  std::ostringstream text;
  registry::report(text, source.id());
  EXPECT_NE(text.str().find("100 bytes  lost  ("), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("2 allocations, 123 bytes"), std::string::npos) << text.str();
  bool is_there = false;
  for (auto const& each : registry::allocators())
    is_there |= each.name == "leaky" && each.allocated == 123 && each.allocations_in_use == 2;
  EXPECT_TRUE(is_there);
}

TEST(Registry, DoesNotListMergedChunks) {
  pool<host_resource, chunk_arena<segregated_fit>> source{host_resource{}, {.first_block = 4096}};
  void* const memory = source.allocate(16);
  void* const empty_chunk = source.allocate(0);
  source.deallocate(memory);
  source.deallocate(empty_chunk);
  source.release();
  EXPECT_TRUE(registry::allocations(source.id()).empty());
}

/// Looks up any address of a pool and compares the result with a map.
TEST(Registry, AgreesWithAMap) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random{seed};
    host_pool source{host_resource{}, {.first_block = 256_KiB, .next_block = 256_KiB}};
    std::map<std::uintptr_t, bytes> allocated;
    for (int step = 0; step < 4000; ++step) {
      if (random() % 5 < 2 && !allocated.empty()) {
        auto const chosen =
            std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
        source.deallocate(reinterpret_cast<void*>(chosen->first));
        allocated.erase(chosen);
      } else {
        bytes const size = bytes{1} << random() % 18;
        allocated[reinterpret_cast<std::uintptr_t>(source.allocate(size))] = size;
      }
      if (step % 100 == 0) source.release();
      std::uintptr_t const address =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(
                                           random() % std::max<std::size_t>(1, allocated.size())))
              ->first +
          random() % 100'000;
      auto model = allocated.upper_bound(address);
      bool const is_in_use = model != allocated.begin() &&
                             address - std::prev(model)->first < std::prev(model)->second;
      auto const found = registry::find(reinterpret_cast<void*>(address));
      ASSERT_EQ(found.has_value(), is_in_use) << "seed " << seed << " step " << step;
      if (is_in_use) {
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(found->base), std::prev(model)->first);
        ASSERT_EQ(found->size, std::prev(model)->second);
      }
    }
  }
}

/// Lookups find allocations in use while the owner of their pool moves its tables, and while other
/// pools come and go.
TEST(Registry, FindsAllocationsInUseWhileTheTablesChange) {
  host_pool source{host_resource{}, {.first_block = 64_KiB, .next_block = 64_KiB}};
  std::vector<std::pair<void*, bytes>> kept;
  for (bytes i = 0; i < 200; ++i) {
    bytes const size = i % 10 == 0 ? 70'000 + i : 100 + i;
    kept.emplace_back(source.allocate(size), size);
  }
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> looks{0};
  std::vector<std::thread> lookers;
  for (std::uint32_t number = 0; number < 2; ++number) {
    lookers.emplace_back([&, number] {
      std::mt19937 random{number};
      while (!is_over.load()) {
        auto const& [pointer, size] = kept[random() % kept.size()];
        auto const found = registry::find(at(pointer, random() % size));
        ASSERT_TRUE(found && found->base == pointer && found->size == size &&
                    found->allocator == source.id());
        (void)registry::find(at(pointer, size + random() % 100'000));  // must not fault
        looks.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::mt19937 random{3};
  for (int round = 0; round < 60 || (looks.load() < 2000 && round < 100'000); ++round) {
    (void)source.label(kept[static_cast<std::size_t>(round) % kept.size()].first, "looked at");
    std::vector<void*> others;
    for (int i = 0; i < 300; ++i) others.push_back(source.allocate(random() % 5000));
    host_pool passing{host_resource{}, {.first_block = 4_KiB, .next_block = 4_KiB}};
    for (int i = 0; i < 20; ++i) (void)passing.allocate(random() % 2000);
    for (void* const other : others) source.deallocate(other);
    source.release();
  }
  is_over = true;
  for (auto& each : lookers) each.join();
}

void* called_from = nullptr;
[[gnu::noinline]] void* allocate_in_a_frame(pool<host_resource>& source) {
  called_from = __builtin_return_address(0);
  void* const result = source.allocate(100);
  asm volatile("" : : "r"(result) : "memory");  // prevents a tail call
  return result;
}
TEST(Registry, LeakReportsHaveBacktracesIfThePoolKeepsThem) {
  pool<host_resource> source{host_resource{}, {.keeps_backtraces = true}};
  void* const named = allocate_in_a_frame(source);
  void* const frame = called_from;
  void* const other = source.allocate(50);
  EXPECT_TRUE(source.label(named, "density"));
  auto const label = registry::label_of(named);
  ASSERT_TRUE(label.has_value());
  EXPECT_EQ(label->name, "density");
  EXPECT_NE(std::find(label->frames.begin(), label->frames.end(), frame), label->frames.end())
      << "a label removes no frames";
  std::ostringstream text;
  registry::report(text, source.id());
  EXPECT_NE(text.str().find("density"), std::string::npos);
  EXPECT_NE(text.str().find("\n      #1 "), std::string::npos) << text.str();
  EXPECT_TRUE(source.deallocate(named));
  EXPECT_TRUE(source.deallocate(other));
  std::ostringstream empty;
  registry::report(empty, source.id());
  EXPECT_EQ(empty.str().find('#'), std::string::npos) << empty.str();
}
TEST(Registry, LeakReportsHaveNoBacktracesByDefault) {
  pool<host_resource> source{host_resource{}};
  void* const memory = allocate_in_a_frame(source);
  std::ostringstream text;
  registry::report(text, source.id());
  EXPECT_EQ(text.str().find('#'), std::string::npos) << text.str();
  EXPECT_FALSE(registry::label_of(memory).has_value());
}

// The threads of the sanitizers do not survive a fork.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/// A child of fork does not have the other threads, which may be in the middle of any call.
TEST(Registry, ServesTheChildOfAForkWhileOtherThreadsAllocate) {
  std::atomic<bool> is_running{true};
  auto const work = [&](std::uint32_t seed) {
    std::mt19937 random{seed};
    while (is_running) {
      pool<host_resource> source{host_resource{}, {.first_block = 1_MiB}};
      std::vector<void*> allocated;
      for (int i = 0; i < 3000 && is_running; ++i) {  // the pool's tables grow and move
        allocated.push_back(source.allocate(random() % 2000));
        if (random() % 16 == 0) source.label(allocated.back(), "one");
      }
      for (void* const each : allocated) source.deallocate(each);
    }
  };
  std::thread first{work, 1}, second{work, 2}, third{work, 3};
  int failed = 0;
  for (int i = 0; i < 100 && failed == 0; ++i) {
    pid_t const child = fork();
    if (child == 0) {
      alarm(20);  // ends a child that hangs
      int local = 0;
      pool<host_resource> source{host_resource{}, {.first_block = 1_MiB}};
      void* const memory = source.allocate(1000);
      bool const is_known = registry::find(memory).has_value() && !registry::find(&local);
      std::ostringstream text;
      registry::report(text);
      source.deallocate(memory);
      _exit(is_known ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    failed += status == 0 ? 0 : 1;
  }
  is_running = false;
  for (auto* const each : {&first, &second, &third}) each->join();
  EXPECT_EQ(failed, 0);
}
#endif

}  // namespace registry_test
}  // namespace quarry::test
