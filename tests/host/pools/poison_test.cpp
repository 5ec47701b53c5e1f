// SPDX-License-Identifier: Apache-2.0
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>  // GCC's header defines __has_feature
#endif
#ifdef __has_feature
#define COMPILER_HAS_FEATURE 1
#else
#define COMPILER_HAS_FEATURE 0
#endif
#include "quarry/host/detail/poison.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/fixed_size_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/monotonic_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"
#include "quarry/platform/host_pages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

namespace quarry::test {

using namespace detail;
namespace poison_test {

using host_pool = pool<host_resource>;

TEST(Poison, DefinesNoNameOfTheCompiler) {
#ifdef __has_feature
  EXPECT_EQ(COMPILER_HAS_FEATURE, 1);
#else
  EXPECT_EQ(COMPILER_HAS_FEATURE, 0);
#endif
}

TEST(Poison, DoesNotTouchSimulatedMemory) {
  pool<simulated_resource> simulated{simulated_resource{}};
  void* const memory = simulated.allocate(100);
  EXPECT_TRUE(simulated.deallocate(memory));
  EXPECT_FALSE(simulated.deallocate(memory));
  simulated_resource below{};
  EXPECT_FALSE(is_poisoned(below));
  statistics_resource<simulated_resource> counted{simulated_resource{}};
  EXPECT_FALSE(is_poisoned(counted));
  statistics_resource<host_resource> real{host_resource{}};
  EXPECT_EQ(is_poisoned(real), has_address_sanitizer);
}

TEST(Poison, AllBytesOfAnAllocationAreUsableInStackedPools) {
  host_pool lower{host_resource{}, {.first_block = 1_MiB}};
  struct borrowed {
    host_pool* source;
    void* allocate(bytes size, bytes alignment) { return source->allocate(size, alignment); }
    void deallocate(void* memory, bytes size, bytes alignment) noexcept {
      source->deallocate(memory, size, alignment);
    }
  };
  pool<borrowed> upper{borrowed{&lower}, {.first_block = 64_KiB, .next_block = 64_KiB}};
  std::mt19937 random{7};
  std::vector<std::pair<void*, bytes>> allocated;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0 || allocated.empty()) {
      bytes const size = random() % 3000;
      allocated.emplace_back(step % 2 == 0 ? upper.allocate(size) : lower.allocate(size), size);
      std::memset(allocated.back().first, 1, size);
    } else {
      auto const at = allocated.begin() + static_cast<std::ptrdiff_t>(random() % allocated.size());
      std::memset(at->first, 2, at->second);
      ASSERT_TRUE(upper.deallocate(at->first) || lower.deallocate(at->first));
      allocated.erase(at);
    }
    if (step % 500 == 0) upper.release();
  }
}

#if QUARRY_ADDRESS_SANITIZER
char volatile* bytes_of(void* memory) { return static_cast<char volatile*>(memory); }

// Each test writes one byte outside an allocation. AddressSanitizer ends the program and reports
// poisoned memory.
constexpr char const* report = "use-after-poison";

TEST(PoisonDeathTest, FindsUseAfterFree) {
  host_pool source{host_resource{}};
  void* const memory = source.allocate(100);
  source.deallocate(memory);
  EXPECT_DEATH(bytes_of(memory)[99] = 1, report);
  EXPECT_FALSE(source.deallocate(memory)) << "the pool still reports a double free";
  EXPECT_EQ(source.counts().invalid_frees, 1u);
}
TEST(PoisonDeathTest, FindsAnOverrunByOneByteInFreshAndInReusedMemory) {
  host_pool source{host_resource{}};
  void* const memory = source.allocate(101);
  bytes_of(memory)[100] = 1;
  EXPECT_DEATH(bytes_of(memory)[101] = 1, report);
  source.deallocate(memory);
  void* const reused = source.allocate(99);
  ASSERT_EQ(reused, memory);
  bytes_of(reused)[98] = 1;
  EXPECT_DEATH(bytes_of(reused)[99] = 1, report);
}
TEST(PoisonDeathTest, FindsMisuseOfSlices) {
  host_pool source{host_resource{}, {.first_block = 32_MiB}};
  std::vector<void*> pointers;
  for (int i = 0; i < 3000; ++i) {
    pointers.push_back(source.allocate(100));
    std::memset(pointers.back(), 1, 100);
  }
  EXPECT_DEATH(bytes_of(pointers.back())[100] = 1, report);  // a slice of 112 bytes
  source.deallocate(pointers.back());
  EXPECT_DEATH(bytes_of(pointers.back())[0] = 1, report);
  for (void* const each : pointers) source.deallocate(each);
  EXPECT_DEATH(bytes_of(pointers[2000])[0] = 1, report);
  std::memset(source.allocate(112), 1, 112);
}
TEST(PoisonDeathTest, FindsAnUnderrunBeyondThePrecedingRedZone) {
  host_pool source{host_resource{}, {.red_zone = 16}};
  void* const preceding = source.allocate(32);
  void* const memory = source.allocate(32);
  ASSERT_EQ(static_cast<char*>(preceding) + 48, memory);
  EXPECT_DEATH(bytes_of(memory)[-1] = 1, report);
  EXPECT_DEATH(bytes_of(preceding)[32] = 1, report);
}
TEST(PoisonDeathTest, FindsUseOfMemoryThatAnotherThreadFreedToAnArena) {
  thread_arenas<host_resource> arenas{host_resource{}};
  void* const memory = arenas.allocate(100);
  std::thread{[&] { arenas.deallocate(memory); }}.join();
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
}
TEST(PoisonDeathTest, FindsUseOfASliceThatAnotherThreadFreedToAnArena) {
  thread_arenas<host_resource> arenas{host_resource{}};
  void* memory = nullptr;
  for (int i = 0; i < 1100; ++i) memory = arenas.allocate(64);  // the last ones are slices
  std::thread{[&] { EXPECT_TRUE(arenas.deallocate(memory)); }}.join();
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
  std::thread{[&] { EXPECT_FALSE(arenas.deallocate(memory)); }}.join();
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
}
TEST(PoisonDeathTest, FindsUseAfterAMonotonicResourcesReset) {
  monotonic_resource<host_resource> source{host_resource{}, 4096};
  void* const memory = source.allocate(100, 16);
  bytes_of(memory)[99] = 1;
  EXPECT_DEATH(bytes_of(memory)[100] = 1, report);
  source.reset();
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
  EXPECT_EQ(source.allocate(10, 16), memory);
  bytes_of(memory)[9] = 1;
}
TEST(PoisonDeathTest, FindsUseAfterAPoolsRelease) {
  monotonic_resource<host_resource> source{host_resource{}, 4096};
  void* const memory = source.allocate(100, 16);
  source.release();
  EXPECT_DEATH(bytes_of(memory)[0] = 1, "heap-use-after-free");
}
TEST(PoisonDeathTest, FindsUseOfFreeSlots) {
  fixed_size_resource<host_resource> slots{host_resource{}, 64};
  void* const slot = slots.allocate(60, 16);
  EXPECT_DEATH(bytes_of(slot)[60] = 1, report);
  slots.deallocate(slot, 60, 16);
  EXPECT_DEATH(bytes_of(slot)[0] = 1, report);
  size_cache_resource<host_resource> kept{host_resource{}, 2};
  void* const memory = kept.allocate(1000, 16);
  kept.deallocate(memory, 1000, 16);
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
  ASSERT_EQ(kept.allocate(1000, 16), memory);
  bytes_of(memory)[999] = 1;
  kept.deallocate(memory, 1000, 16);
}
TEST(PoisonDeathTest, FindsUseAfterFreeInAStitchedPool) {
  stitched_pool<host_pages> source{host_pages{}};
  void* const memory = source.allocate(1000);
  bytes_of(memory)[999] = 1;
  EXPECT_DEATH(bytes_of(memory)[1000] = 1, report);
  source.deallocate(memory);
  EXPECT_DEATH(bytes_of(memory)[0] = 1, report);
}
#endif

}  // namespace poison_test
}  // namespace quarry::test
