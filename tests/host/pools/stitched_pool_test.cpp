// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stitched_pool.hpp"

#include "conformance/resource_conformance.hpp"
#include "host/pools/simulation_trace.hpp"
#include "quarry/platform/host_pages.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <memory>

namespace quarry::test {

using namespace detail;
namespace stitched_pool_test {

constexpr bytes page = bytes{64} << 10;

struct on_the_host {
  static constexpr bytes alignment = 64;
  static constexpr bool is_touchable = true;
  stitched_pool<host_pages> source{host_pages{page}, {.alignment = alignment}};

  ~on_the_host() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<on_the_host> make() { return std::make_unique<on_the_host>(); }
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(source.size_of(pointer), size);
    EXPECT_TRUE(source.deallocate(pointer));
  }
};
bool const is_registered = conforms("StitchedPool", testing::Types<on_the_host>{});

TEST(StitchedPool, CombinesFreePagesForALargeRequest) {
  stitched_pool<simulated_pages> source{simulated_pages{page}};
  std::vector<void*> pointers;
  for (int i = 0; i < 8; ++i) pointers.push_back(source.allocate(page));
  for (int i = 0; i < 8; i += 2) source.deallocate(pointers[static_cast<std::size_t>(i)]);
  void* const large = source.allocate(4 * page);
  EXPECT_EQ(source.counts().reserved, 8 * page);
  EXPECT_EQ(source.counts().moved, 4 * page);
  EXPECT_EQ(source.pages().reserved(), 8 * page);
  EXPECT_TRUE(source.deallocate(large));
  EXPECT_EQ(source.shrink(), 4 * page);
  EXPECT_EQ(source.pages().reserved(), 4 * page);
  EXPECT_EQ(source.pages().mistakes(), 0u);
  EXPECT_TRUE(source.audit().empty());
}

/// Pages of the host, at most 1 GiB per call.
struct small_host_pages : host_pages {
  using host_pages::host_pages;
  void map(std::uint64_t base, bytes size) {
    if (size > 1_GiB) throw out_of_memory{"small_host_pages", size, "the limit is 1 GiB"};
    host_pages::map(base, size);
  }
};

/// The pool reuses the addresses of a refused request for the next requests. The registry must know
/// these addresses.
TEST(StitchedPool, IsKnownToTheRegistryAfterARefusedRequest) {
  stitched_pool<small_host_pages> source{small_host_pages{page}, {.max_bytes = bytes{1} << 41}};
  for (bytes const size : {bytes{1} << 39, bytes{1} << 40, (bytes{1} << 40) + 1}) {
    EXPECT_THROW((void)source.allocate(size), std::bad_alloc) << size;
    for (bytes const small : {bytes{1000}, 40 * page}) {
      void* const memory = source.allocate(small);
      auto const found = registry::find(memory);
      ASSERT_TRUE(found) << small << " bytes after " << size;
      EXPECT_EQ(found->size, small);
      EXPECT_TRUE(registry::find(static_cast<char*>(memory) + small - 1));
    }
  }
}

TEST(StitchedPool, ShrinksByWholePages) {
  stitched_pool<simulated_pages> source{simulated_pages{page}};
  source.deallocate(source.allocate(3 * page));
  EXPECT_EQ(source.shrink(100), 0u);
  EXPECT_EQ(source.shrink(page + 100), page);
  EXPECT_EQ(source.pages().reserved(), 2 * page);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(source.allocate(1000)) % page, 0u);
  EXPECT_EQ(source.pages().mistakes(), 0u);
}

TEST(StitchedPool, UsesNoAddressesForARefusedRequest) {
  stitched_pool<simulated_pages> source{simulated_pages{page, 4 * page},
                                        {.max_bytes = 8 * page, .range = 16 * page}};
  for (int i = 0; i < 100; ++i) EXPECT_THROW((void)source.allocate(6 * page), out_of_memory);
  auto const first = reinterpret_cast<std::uintptr_t>(source.allocate(page));
  EXPECT_EQ(first, std::uint64_t{1} << 32) << "the first address of the first range";
}

TEST(StitchedPool, RefusesMoreAlignmentThanItsPagesHave) {
  EXPECT_THROW((stitched_pool<simulated_pages>{simulated_pages{4096}, {.alignment = 8192}}),
               bad_argument);
}

TEST(StitchedPool, ServesMoreAlignmentThanItsOwn) {
  stitched_pool<simulated_pages> source{simulated_pages{page}};
  std::vector<void*> allocated;
  for (bytes const alignment : {bytes{32}, bytes{4096}, 4 * page, bytes{16}, 16 * page}) {
    void* const memory = allocated.emplace_back(source.allocate(100, alignment));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    EXPECT_EQ(source.size_of(memory), 100u);
    EXPECT_TRUE(source.audit().empty());
  }
  EXPECT_EQ(source.counts().allocated, 500u);
  for (void* const each : allocated) EXPECT_TRUE(source.deallocate(each));
  EXPECT_TRUE(source.audit().empty());
  EXPECT_THROW((void)source.allocate(8, 3), bad_argument);
}

TEST(StitchedPool, RefusesARangeBeyondTheAddressSpace) {
  for (bytes const range : {(bytes{1} << 46) + 1, ~bytes{0}})
    EXPECT_THROW((stitched_pool<simulated_pages>{simulated_pages{4096}, {.range = range}}),
                 bad_argument);
}

TEST(StitchedPool, MovesNoPagesOfRegisteredMemory) {
  stitched_pool<simulated_pages> source{simulated_pages{page}, {.is_registered = true}};
  source.deallocate(source.allocate(page));
  (void)source.allocate(2 * page);
  EXPECT_EQ(source.counts().moved, 0u);
  EXPECT_EQ(source.counts().reserved, 3 * page);
}

TEST(StitchedPool, RefusesADoubleFreeAndAForeignPointer) {
  stitched_pool<simulated_pages> source{simulated_pages{page}};
  auto* const memory = static_cast<char*>(source.allocate(100));
  EXPECT_FALSE(source.deallocate(memory + 16));
  EXPECT_TRUE(source.deallocate(memory));
  EXPECT_FALSE(source.deallocate(memory));
  EXPECT_EQ(source.counts().invalid_frees, 2u);
}

TEST(StitchedPool, LosesNoPageWhenPagesRunOut) {
  stitched_pool<simulated_pages> source{simulated_pages{page, 10 * page}};
  std::vector<void*> pointers;
  for (int i = 0; i < 8; ++i) pointers.push_back(source.allocate(page));
  for (int i = 0; i < 8; i += 2) source.deallocate(pointers[static_cast<std::size_t>(i)]);
  auto const counts_before = source.counts();
  EXPECT_THROW((void)source.allocate(7 * page), out_of_memory);
  EXPECT_EQ(source.counts().reserved, counts_before.reserved);
  EXPECT_EQ(source.counts().allocated, counts_before.allocated);
  EXPECT_EQ(source.pages().reserved(), 8 * page);
  EXPECT_NO_THROW((void)source.allocate(6 * page));
  EXPECT_EQ(source.pages().reserved(), 10 * page) << "a pool reaches its limit";
  EXPECT_EQ(source.pages().mistakes(), 0u);
  EXPECT_TRUE(source.audit().empty());
}

TEST(StitchedPool, EnforcesItsLimit) {
  stitched_pool<simulated_pages> source{simulated_pages{page}, {.max_bytes = 3 * page}};
  void* const memory = source.allocate(2 * page);
  EXPECT_THROW((void)source.allocate(2 * page), out_of_memory);
  source.deallocate(memory);
  EXPECT_NO_THROW((void)source.allocate(3 * page));
}

/// The n-th call to the pages fails. The pool loses no page, maps no page twice, and finally
/// returns all pages.
TEST(StitchedPool, SurvivesAFailureOfAnyCallToItsPages) {
  struct failing_pages : simulated_pages {
    int* calls;
    int nth;
    failing_pages(int* counter, int failing_call)
        : simulated_pages{page}, calls{counter}, nth{failing_call} {}
    void may_fail() {
      if (++*calls == nth) throw out_of_memory{"failing_pages", 0, "on purpose"};
    }
    std::uint64_t reserve(bytes size) {
      may_fail();
      return simulated_pages::reserve(size);
    }
    void map(std::uint64_t address, bytes size) {
      may_fail();
      simulated_pages::map(address, size);
    }
    void move(std::uint64_t source, std::uint64_t target, bytes size) {
      may_fail();
      simulated_pages::move(source, target, size);
    }
  };
  for (int failing = 1; failing <= 80; ++failing) {
    int calls = 0;
    stitched_pool<failing_pages> source{failing_pages{&calls, failing}, {.range = 64 * page}};
    std::mt19937 random{static_cast<std::uint32_t>(failing)};
    std::vector<std::pair<void*, bytes>> pointers;
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0 && !pointers.empty()) {
        std::swap(pointers[random() % pointers.size()], pointers.back());
        ASSERT_EQ(source.size_of(pointers.back().first), pointers.back().second);
        ASSERT_TRUE(source.deallocate(pointers.back().first));
        pointers.pop_back();
        continue;
      }
      bytes const size = random() % (5 * page);
      try {
        pointers.emplace_back(source.allocate(size), size);
        auto const base = reinterpret_cast<std::uint64_t>(pointers.back().first);
        for (bytes at = 0; at < size; at += page) ASSERT_TRUE(source.pages().is_mapped(base + at));
      } catch (out_of_memory const&) {
      }
      ASSERT_EQ(source.counts().reserved, source.pages().reserved())
          << "failing call " << failing << " step " << step;
      ASSERT_TRUE(source.audit().empty()) << source.audit().front();
    }
    ASSERT_EQ(source.pages().mistakes(), 0u);
    for (auto const& [pointer, size] : pointers) ASSERT_TRUE(source.deallocate(pointer));
    (void)source.shrink();
    EXPECT_EQ(source.pages().reserved(), 0u);
  }
}

/// On the trace of the published heuristics, the pool neither coalesces nor reserves more than any
/// of their rows.
TEST(StitchedPool, ReservesLessThanAnyPublishedHeuristicOnThePublishedTrace) {
  simulation_trace const trace{80, 1};
  stitched_pool<simulated_pages> source{simulated_pages{page}};
  std::vector<void*> pointers;
  for (auto const& each : trace.steps()) {
    if (each.is_allocation) {
      pointers.push_back(source.allocate(each.size));
    } else {
      ASSERT_TRUE(source.deallocate(pointers[each.id]));
    }
  }
  EXPECT_EQ(source.counts().peak_allocated, 369'052'815u);
  EXPECT_LT(source.counts().peak_reserved, 387'927'744u);
  EXPECT_LT(source.counts().peak_reserved, source.counts().peak_allocated / 100 * 102);
  EXPECT_EQ(source.pages().mistakes(), 0u);
}

TEST(StitchedPool, RegistersItsAllocations) {
  for (bytes const page_size : {bytes{4096}, bytes{64_KiB}}) {
    stitched_pool<host_pages> source{host_pages{page_size}, {.range = 8_MiB, .name = "stitched"}};
    std::vector<void*> allocated;
    for (bytes size = 1; size < 3_MiB; size = size * 2 + 1)
      allocated.push_back(source.allocate(size));
    for (std::size_t i = 0; i < allocated.size(); i += 2) source.deallocate(allocated[i]);
    allocated.push_back(source.allocate(2_MiB));
    ASSERT_TRUE(source.label(allocated.back(), "large"));
    auto const found = registry::find(static_cast<char*>(allocated.back()) + 1_MiB);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->base, allocated.back());
    EXPECT_EQ(registry::name_of(found->allocator), "stitched");
    EXPECT_EQ(registry::label_of(allocated.back())->name, "large");
    for (std::size_t i = 1; i + 1 < allocated.size(); i += 2)
      EXPECT_EQ(registry::find(allocated[i])->base, allocated[i]);
    EXPECT_EQ(registry::allocations(source.id()).size(), (allocated.size() - 1) / 2 + 1);
  }
}

}  // namespace stitched_pool_test
}  // namespace quarry::test
