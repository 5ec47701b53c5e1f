// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/slices.hpp"

#include "host/pools/sliced_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include <map>
#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace slices_test {

using namespace quarry::literals;

/// Pages without memory; at most `maximum` are in use at a time.
struct no_map_pages {
  std::size_t maximum = 1000;
  std::uint64_t next = std::uint64_t{3} << 32;
  std::set<std::uint64_t> in_use{};
};
struct map_pages {
  no_map_pages& pages;
  std::optional<std::uint64_t> allocate() const {
    if (pages.in_use.size() == pages.maximum) return std::nullopt;
    pages.next += slice_block::size;
    pages.in_use.insert(pages.next);
    return pages.next;
  }
  void deallocate(std::uint64_t base) const { EXPECT_EQ(pages.in_use.erase(base), 1u); }
};

std::optional<std::uint64_t> allocate(slices& source, bytes size, no_map_pages& pages) {
  auto& list = source.list_of(size);
  return list.is_empty() ? source.allocate_slowly(size, map_pages{pages}) : list.take(size);
}
bool deallocate(slices& source, std::uint64_t base, no_map_pages& pages) {
  slice_block* const block = source.find_block(base);
  if (block == nullptr || block->find_base(base).slice.is_free()) return false;
  if (source.deallocate(*block, base, block->find_base(base).number))
    source.flush(*block, map_pages{pages});
  return true;
}

TEST(Slices, ServeAClassAfterABlockfulOfRequests) {
  no_map_pages pages;
  slices tested{16};
  tested.begin();
  ASSERT_EQ(tested.maximum(), 4096u);
  for (bytes const size : {64u, 4096u}) {
    for (bytes i = 0; i < slice_block::size / size; ++i)
      EXPECT_FALSE(allocate(tested, size, pages)) << size << ' ' << i;
    EXPECT_TRUE(allocate(tested, size, pages));
  }
  EXPECT_EQ(tested.blocks(), 2u);
  EXPECT_EQ(pages.in_use.size(), 2u);
  EXPECT_TRUE(tested.audit().empty());
}

TEST(Slices, AreAtMostAnEighthLargerThanTheRequestedUnits) {
  for (bytes const alignment : {16u, 64u, 256u, 1024u}) {
    no_map_pages pages;
    slices tested{alignment};
    tested.begin();
    for (bytes size = 1; size <= tested.maximum(); ++size) {
      std::optional<std::uint64_t> base;
      for (std::uint32_t tries = 0; !base && tries <= 5000; ++tries)
        base = allocate(tested, size, pages);
      ASSERT_TRUE(base);
      ASSERT_EQ(*base % alignment, 0u);
      bytes const slice = tested.find_block(*base)->slice();
      ASSERT_GE(slice, size);
      ASSERT_LE(slice, (size + alignment - 1) / alignment * alignment * 9 / 8) << size;
      ASSERT_EQ(tested.find_block(*base)->find_base(*base).slice.requested(), size);
    }
    EXPECT_TRUE(tested.audit().empty());
  }
}

TEST(Slices, HaveNoBlocksIfTheAlignmentLeavesTooFewSlices) {
  slices tested{2048};
  tested.begin();
  EXPECT_EQ(tested.maximum(), 0u);
  EXPECT_EQ(tested.find_block(1 << 20), nullptr);
}

TEST(Slices, ReturnABlockWithoutAllocatedSlices) {
  no_map_pages pages;
  slices tested{16};
  tested.begin();
  std::vector<std::uint64_t> addresses;
  while (addresses.size() < 3 * 64) {
    if (auto const base = allocate(tested, 1024, pages)) addresses.push_back(*base);
  }
  ASSERT_EQ(tested.blocks(), 3u);
  for (std::uint64_t const each : addresses) EXPECT_TRUE(deallocate(tested, each, pages));
  EXPECT_LE(tested.blocks(), 2u);  // the slices of the quick list may lie in two blocks
  EXPECT_EQ(tested.in_use(), 0u);
  EXPECT_TRUE(tested.audit().empty());
  EXPECT_TRUE(tested.release(map_pages{pages}));
  EXPECT_FALSE(tested.release(map_pages{pages}));
  EXPECT_EQ(pages.in_use.size(), 0u);
  EXPECT_FALSE(deallocate(tested, addresses[0], pages));
  for (bytes i = 0; i < 64; ++i)
    EXPECT_FALSE(allocate(tested, 1024, pages)) << "the class starts without a block again";
  EXPECT_TRUE(allocate(tested, 1024, pages));
}

TEST(Slices, ReturnABlockThatBecameEmptyBeforeAnotherBlockHadFreeSlices) {
  no_map_pages pages;
  slices tested{16};
  tested.begin();
  std::vector<std::uint64_t> addresses;
  while (addresses.size() < 32) {
    if (auto const base = allocate(tested, 4096, pages)) addresses.push_back(*base);
  }
  slice_block* const first = tested.find_block(addresses[0]);
  ASSERT_EQ(tested.blocks(), 2u);
  auto const free_those_of = [&](bool is_first, std::size_t count) {
    for (auto& each : addresses) {
      if (each == 0 || (tested.find_block(each) == first) != is_first || count == 0) continue;
      EXPECT_TRUE(deallocate(tested, each, pages));
      each = 0;
      --count;
    }
  };
  free_those_of(true, 16);
  free_those_of(false, 15);
  EXPECT_TRUE(tested.audit().empty());
  (void)tested.release(map_pages{pages});
  EXPECT_EQ(tested.blocks(), 1u);
  EXPECT_EQ(pages.in_use.size(), 1u);
  EXPECT_TRUE(tested.audit().empty());
}

TEST(Slices, AreReusedLatestFirst) {
  no_map_pages pages;
  slices tested{16};
  tested.begin();
  std::vector<std::uint64_t> addresses;
  while (addresses.size() < 200) {
    if (auto const base = allocate(tested, 512, pages)) addresses.push_back(*base);
  }
  EXPECT_TRUE(deallocate(tested, addresses[7], pages));
  EXPECT_TRUE(deallocate(tested, addresses[150], pages));
  EXPECT_EQ(allocate(tested, 500, pages), addresses[150]);
  EXPECT_EQ(allocate(tested, 510, pages), addresses[7]);
}

TEST(Slices, MoveBetweenBlocksAndTheQuickListByHalfAList) {
  no_map_pages pages;
  slices tested{16};
  tested.begin();
  std::vector<std::uint64_t> addresses;
  while (addresses.size() < 1000) {
    if (auto const base = allocate(tested, 64, pages)) addresses.push_back(*base);
  }
  std::size_t flushes = 0;
  for (std::uint64_t const each : addresses) {
    slice_block* const block = tested.find_block(each);
    if (!tested.deallocate(*block, each, block->find_base(each).number)) continue;
    tested.flush(*block, map_pages{pages});
    ++flushes;
  }
  EXPECT_GE(flushes, 1000u / 64 - 2);  // the quick list has room for 128 slices
  EXPECT_LE(flushes, 1000u / 64);
  EXPECT_TRUE(tested.audit().empty());
}

TEST(Slices, RequestABlockAgainOnlyAfterABlockfulOfFurtherRequests) {
  no_map_pages pages{.maximum = 0};
  slices tested{16};
  tested.begin();
  int requests = 0;
  struct counted : map_pages {
    int& requests;
    std::optional<std::uint64_t> allocate() const {
      ++requests;
      return map_pages::allocate();
    }
  };
  for (int i = 0; i < 16 * 10 + 10; ++i)
    EXPECT_FALSE(tested.allocate_slowly(4096, counted{{pages}, requests}));
  EXPECT_EQ(requests, 10);
}

TEST(Slices, AgreeWithASetOfAllocations) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    no_map_pages pages{.maximum = 20 + seed * 5};
    slices tested{16};
    tested.begin();
    std::map<std::uint64_t, bytes> model;  // base -> size
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 1000 == 0) tested.release(map_pages{pages});
      bool const grows = step / 4000 % 2 == 0;
      if (model.empty() || random() % 100 < (grows ? 60u : 40u)) {
        bytes const size = 1 + random() % (random() % 2 == 0 ? 100 : 4096);
        auto const base = allocate(tested, size, pages);
        if (!base) continue;
        auto const next = model.lower_bound(*base);
        ASSERT_TRUE(next == model.end() || *base + size <= next->first);
        ASSERT_TRUE(next == model.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= *base);
        model.emplace(*base, size);
      } else {
        auto at = model.lower_bound(model.begin()->first +
                                    random() % (model.rbegin()->first - model.begin()->first + 1));
        ASSERT_EQ(tested.find_block(at->first)->find_base(at->first).slice.requested(), at->second);
        ASSERT_TRUE(deallocate(tested, at->first, pages));
        ASSERT_FALSE(tested.find_block(at->first) != nullptr &&
                     !tested.find_block(at->first)->find_base(at->first).slice.is_free());
        model.erase(at);
      }
    }
    auto const problems = tested.audit();
    ASSERT_TRUE(problems.empty()) << problems[0];
    ASSERT_EQ(tested.in_use(), model.size());
    for (auto const& [base, size] : model) ASSERT_TRUE(deallocate(tested, base, pages));
    tested.release(map_pages{pages});
    ASSERT_TRUE(pages.in_use.empty());
  }
}

TEST(SlicesOfAPool, AreFoundNamedAndReportedAsAllocations) {
  sliced first, second;
  char* const a = static_cast<char*>(first.slice(100));
  char* const b = static_cast<char*>(second.slice(100));
  for (auto const& [owner, at] : {std::pair{&first, a}, {&second, b}}) {
    for (int const offset : {0, 50, 99}) {
      auto const found = registry::find(at + offset);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->base, at);
      EXPECT_EQ(found->size, 100u);
      EXPECT_EQ(found->allocator, owner->source.id());
    }
    EXPECT_FALSE(registry::find(at + 100));
    auto const allocated = registry::allocations(owner->source.id());
    ASSERT_EQ(allocated.size(), 1u);
    EXPECT_EQ(allocated[0].base, at);
    EXPECT_EQ(allocated[0].size, 100u);
  }
  EXPECT_TRUE(first.source.label(a, "velocities"));
  EXPECT_FALSE(first.source.label(b, "another pool's"));
  EXPECT_EQ(registry::label_of(a + 7)->name, "velocities");
  EXPECT_TRUE(first.source.deallocate(a));
  EXPECT_FALSE(registry::find(a));
  void* const reused = first.source.allocate(98);  // a size of the same class
  EXPECT_EQ(reused, a);
  EXPECT_FALSE(registry::label_of(reused));
}

TEST(SlicesOfAPool, RefuseInvalidFrees) {
  sliced first, second;
  char* const a = static_cast<char*>(first.slice(256));
  char* const b = static_cast<char*>(second.slice(256));
  char* const low = reinterpret_cast<char*>(std::uintptr_t{64});
  for (char* const wrong : {a + 1, a + 16, a + 256, b, low})
    EXPECT_FALSE(first.source.deallocate(wrong));
  EXPECT_TRUE(first.source.deallocate(a));
  EXPECT_FALSE(first.source.deallocate(a));
  EXPECT_EQ(first.source.counts().invalid_frees, 6u);
  EXPECT_EQ(first.source.counts().allocations_in_use, 0u);
  EXPECT_EQ(first.source.size_of(a), std::nullopt);
  EXPECT_EQ(second.source.size_of(b), 256u);
}

TEST(SlicesOfAPool, AreReturnedWithTheirPoolsBlocks) {
  sliced tested;
  void* const a = tested.slice(64);
  EXPECT_TRUE(tested.source.deallocate(a));
  tested.source.release();
  EXPECT_EQ(tested.source.counts().reserved, 0u);
  EXPECT_FALSE(registry::find(a));
  EXPECT_TRUE(tested.source.audit().empty());
}

TEST(SlicesOfAPool, MakeRoomForALargeRequest) {
  pool<host_resource> source{host_resource{}, {.first_block = 16_MiB, .max_bytes = 16_MiB}};
  std::vector<void*> small;
  for (int i = 0; i < 3000; ++i) small.push_back(source.allocate(64));
  for (void* const each : small) source.deallocate(each);
  void* const large = source.allocate(16_MiB);
  EXPECT_EQ(source.counts().blocks_allocated, 1u);
  EXPECT_THROW((void)source.allocate(64), out_of_memory);
  EXPECT_TRUE(source.deallocate(large));
  EXPECT_TRUE(source.audit().empty());
}

TEST(SlicesOfAPool, AreNotUsedIfOptionsDependOnEachChunk) {
  for (pool_options options :
       {pool_options{.coalesce = heuristic::percent_releasable(50)}, pool_options{.red_zone = 16},
        pool_options{.keeps_backtraces = true}, pool_options{.first_block = 1_MiB}}) {
    if (options.first_block == 0) options.first_block = 32_MiB;
    pool<host_resource> source{host_resource{}, options};
    std::size_t chunks = 0;
    for (int i = 0; i < 3000; ++i) (void)source.allocate(64);
    source.for_each([&](std::uint64_t, bytes, bool is_free) { chunks += is_free; });
    EXPECT_LE(chunks, 1u);  // the free slices of a slice block would be counted as well
  }
}

TEST(SlicesOfAPool, TileThePoolTogetherWithItsChunks) {
  sliced tested;
  std::mt19937 random{7};
  std::map<void*, bytes> model;
  for (int step = 0; step < 30'000; ++step) {
    if (model.size() < 3000 || random() % 2 == 0) {
      bytes const size = random() % 50 == 0 ? random() % 200'000 : 1 + random() % 5000;
      bytes const alignment = random() % 20 == 0 ? 64u << random() % 8 : 16u;
      void* const made = tested.source.allocate(size, alignment);
      ASSERT_EQ(reinterpret_cast<std::uint64_t>(made) % alignment, 0u);
      ASSERT_TRUE(model.emplace(made, size).second);
    } else {
      auto at = model.lower_bound(reinterpret_cast<void*>(
          reinterpret_cast<std::uint64_t>(model.begin()->first) + random() % 32_MiB));
      if (at == model.end()) at = model.begin();
      ASSERT_EQ(tested.source.size_of(at->first), at->second);
      ASSERT_TRUE(tested.source.deallocate(at->first));
      model.erase(at);
    }
    if (step % 5000 == 4999) tested.source.release();
  }
  auto const problems = tested.source.audit();
  ASSERT_TRUE(problems.empty()) << problems[0];
  std::uint64_t end = 0;
  std::size_t in_use = 0;
  bytes sum = 0;
  tested.source.for_each([&](std::uint64_t base, bytes size, bool is_free) {
    if (end != 0 && base != end) {
      EXPECT_FALSE(model.contains(reinterpret_cast<void*>(end)));
    }
    end = base + size;
    sum += size;
    if (is_free) return;
    ++in_use;
    auto const found = model.find(reinterpret_cast<void*>(base));
    ASSERT_NE(found, model.end());
    ASSERT_LE(found->second, size);
  });
  EXPECT_EQ(sum, tested.source.counts().reserved);
  EXPECT_EQ(in_use, model.size());
  EXPECT_EQ(tested.source.counts().allocations_in_use, model.size());
  bytes allocated = 0;
  for (auto const& [base, size] : model) {
    allocated += size;
    auto const found = registry::find(static_cast<char*>(base) + (size == 0 ? 0 : size - 1));
    ASSERT_TRUE(found);
    ASSERT_EQ(found->base, base);
    ASSERT_EQ(found->size, size);
  }
  EXPECT_EQ(tested.source.counts().allocated, allocated);
  EXPECT_EQ(registry::allocations(tested.source.id()).size(), model.size());
}

TEST(SlicesOfAPool, WorkInMemoryThatTheHostCannotTouch) {
  pool<simulated_resource> source{simulated_resource{}, {.first_block = 32_MiB}};
  std::vector<void*> addresses;
  for (int i = 0; i < 5000; ++i) addresses.push_back(source.allocate(48));
  EXPECT_EQ(source.counts().allocations_in_use, 5000u);
  for (void* const each : addresses) EXPECT_TRUE(source.deallocate(each));
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
  EXPECT_TRUE(source.audit().empty());
}

}  // namespace slices_test
}  // namespace quarry::test
