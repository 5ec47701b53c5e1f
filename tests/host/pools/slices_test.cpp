// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/slices.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

namespace quarry::test {

using namespace detail;
namespace slices_test {

using namespace quarry::literals;

/// Granules of nothing, up to `maximum` at a time.
struct no_map_pages {
  std::size_t maximum = 1000;
  std::uint64_t next = std::uint64_t{3} << 32;
  std::set<std::uint64_t> given{};
};
struct map_pages {
  no_map_pages& of;
  std::optional<std::uint64_t> take() const {
    if (of.given.size() == of.maximum) return std::nullopt;
    of.next += slice_block::size;
    of.given.insert(of.next);
    return of.next;
  }
  void give(std::uint64_t base) const { EXPECT_EQ(of.given.erase(base), 1u); }
};

std::optional<std::uint64_t> allocate(slices& source, bytes size, no_map_pages& all) {
  auto const base = source.allocate(size);
  return base ? base : source.allocate_slowly(size, map_pages{all});
}
bool deallocate(slices& source, std::uint64_t base, no_map_pages& all) {
  slice_block* const its = source.of(base);
  if (its == nullptr || its->find_base(base).what.is_free()) return false;
  if (source.deallocate(*its, base, its->find_base(base).number))
    source.flush(its->size_class(), map_pages{all});
  return true;
}

TEST(Slices, ServeAClassOnceItWasAskedForAsMuchAsABlockHas) {
  no_map_pages all;
  slices some{16};
  some.begin();
  ASSERT_EQ(some.maximum(), 4096u);
  for (bytes const size : {64u, 4096u}) {
    for (bytes i = 0; i < slice_block::size / size; ++i)
      EXPECT_FALSE(allocate(some, size, all)) << size << ' ' << i;
    EXPECT_TRUE(allocate(some, size, all));
  }
  EXPECT_EQ(some.blocks(), 2u);
  EXPECT_EQ(all.given.size(), 2u);
  EXPECT_TRUE(some.audit().empty());
}

TEST(Slices, AreAtMostAnEighthLargerThanWhatIsAskedForAndAUnit) {
  for (bytes const alignment : {16u, 64u, 256u, 1024u}) {
    no_map_pages all;
    slices some{alignment};
    some.begin();
    for (bytes size = 1; size <= some.maximum(); ++size) {
      std::optional<std::uint64_t> base;
      for (std::uint32_t tries = 0; !base && tries <= 5000; ++tries)
        base = allocate(some, size, all);
      ASSERT_TRUE(base);
      ASSERT_EQ(*base % alignment, 0u);
      bytes const slice = some.of(*base)->slice();
      ASSERT_GE(slice, size);
      ASSERT_LE(slice, (size + alignment - 1) / alignment * alignment * 9 / 8) << size;
      ASSERT_EQ(some.of(*base)->find_base(*base).what.requested(), size);
    }
    EXPECT_TRUE(some.audit().empty());
  }
}

TEST(Slices, HaveNoBlocksWhereTheAlignmentLeavesTooFewSlices) {
  slices some{2048};
  some.begin();
  EXPECT_EQ(some.maximum(), 0u);
  EXPECT_EQ(some.of(1 << 20), nullptr);
}

TEST(Slices, GiveABlockBackWhenNothingOfItIsTaken) {
  no_map_pages all;
  slices some{16};
  some.begin();
  std::vector<std::uint64_t> reserved;
  while (reserved.size() < 3 * 64) {
    if (auto const base = allocate(some, 1024, all)) reserved.push_back(*base);
  }
  ASSERT_EQ(some.blocks(), 3u);
  for (std::uint64_t const each : reserved) EXPECT_TRUE(deallocate(some, each, all));
  EXPECT_LE(some.blocks(), 2u);  // what the quick list has may lie in two
  EXPECT_EQ(some.in_use(), 0u);
  EXPECT_TRUE(some.audit().empty());
  EXPECT_TRUE(some.release(map_pages{all}));
  EXPECT_FALSE(some.release(map_pages{all}));
  EXPECT_EQ(all.given.size(), 0u);
  EXPECT_FALSE(deallocate(some, reserved[0], all));
  for (bytes i = 0; i < 64; ++i) EXPECT_FALSE(allocate(some, 1024, all)) << "as at first";
  EXPECT_TRUE(allocate(some, 1024, all));
}

TEST(Slices, GiveUpABlockThatWasEmptyBeforeAnotherOneHadFreeSlices) {
  no_map_pages all;
  slices some{16};
  some.begin();
  std::vector<std::uint64_t> reserved;
  while (reserved.size() < 32) {
    if (auto const base = allocate(some, 4096, all)) reserved.push_back(*base);
  }
  slice_block* const first = some.of(reserved[0]);
  ASSERT_EQ(some.blocks(), 2u);
  auto const free_those_of = [&](bool is_first, std::size_t count) {
    for (auto& each : reserved) {
      if (each == 0 || (some.of(each) == first) != is_first || count == 0) continue;
      EXPECT_TRUE(deallocate(some, each, all));
      each = 0;
      --count;
    }
  };
  free_those_of(true, 16);
  free_those_of(false, 15);
  EXPECT_TRUE(some.audit().empty());
  (void)some.release(map_pages{all});
  EXPECT_EQ(some.blocks(), 1u);
  EXPECT_EQ(all.given.size(), 1u);
  EXPECT_TRUE(some.audit().empty());
}

TEST(Slices, OfAClassAreHandedOutLatestFirst) {
  no_map_pages all;
  slices some{16};
  some.begin();
  std::vector<std::uint64_t> reserved;
  while (reserved.size() < 200) {
    if (auto const base = allocate(some, 512, all)) reserved.push_back(*base);
  }
  EXPECT_TRUE(deallocate(some, reserved[7], all));
  EXPECT_TRUE(deallocate(some, reserved[150], all));
  EXPECT_EQ(allocate(some, 500, all), reserved[150]);
  EXPECT_EQ(allocate(some, 510, all), reserved[7]);
}

TEST(Slices, MoveBetweenBlocksAndTheQuickListHalfAListAtATime) {
  no_map_pages all;
  slices some{16};
  some.begin();
  std::vector<std::uint64_t> reserved;
  while (reserved.size() < 1000) {
    if (auto const base = allocate(some, 64, all)) reserved.push_back(*base);
  }
  std::size_t flushes = 0;
  for (std::uint64_t const each : reserved) {
    slice_block* const its = some.of(each);
    if (!some.deallocate(*its, each, its->find_base(each).number)) continue;
    some.flush(its->size_class(), map_pages{all});
    ++flushes;
  }
  EXPECT_GE(flushes, 1000u / 64 - 2);  // the list has room for 128
  EXPECT_LE(flushes, 1000u / 64);
  EXPECT_TRUE(some.audit().empty());
}

TEST(Slices, AskAgainOnlyAfterAsManyRequestsWhenThereWasNoBlock) {
  no_map_pages all{.maximum = 0};
  slices some{16};
  some.begin();
  int requested = 0;
  struct counted : map_pages {
    int& requested;
    std::optional<std::uint64_t> take() const {
      ++requested;
      return map_pages::take();
    }
  };
  for (int i = 0; i < 16 * 10 + 10; ++i)
    EXPECT_FALSE(some.allocate_slowly(4096, counted{{all}, requested}));
  EXPECT_EQ(requested, 10);
}

TEST(Slices, AgreeWithASetOfAllocations) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    no_map_pages all{.maximum = 20 + seed * 5};
    slices some{16};
    some.begin();
    std::map<std::uint64_t, bytes> model;  // begin -> size
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 1000 == 0) some.release(map_pages{all});
      bool const grows = step / 4000 % 2 == 0;
      if (model.empty() || random() % 100 < (grows ? 60u : 40u)) {
        bytes const size = 1 + random() % (random() % 2 == 0 ? 100 : 4096);
        auto const base = allocate(some, size, all);
        if (!base) continue;
        auto const next = model.lower_bound(*base);
        ASSERT_TRUE(next == model.end() || *base + size <= next->first);
        ASSERT_TRUE(next == model.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= *base);
        model.emplace(*base, size);
      } else {
        auto at = model.lower_bound(model.begin()->first +
                                    random() % (model.rbegin()->first - model.begin()->first + 1));
        ASSERT_EQ(some.of(at->first)->find_base(at->first).what.requested(), at->second);
        ASSERT_TRUE(deallocate(some, at->first, all));
        ASSERT_FALSE(some.of(at->first) != nullptr &&
                     !some.of(at->first)->find_base(at->first).what.is_free());
        model.erase(at);
      }
    }
    auto const problems = some.audit();
    ASSERT_TRUE(problems.empty()) << problems[0];
    ASSERT_EQ(some.in_use(), model.size());
    for (auto const& [base, size] : model) ASSERT_TRUE(deallocate(some, base, all));
    some.release(map_pages{all});
    ASSERT_TRUE(all.given.empty());
  }
}

/// A pool whose small allocations are slices.
struct sliced {
  explicit sliced(bool is_tracked = true, bytes alignment = 16)
      : source{host_resource{},
               {.first_block = 32_MiB, .alignment = alignment, .is_tracked = is_tracked}} {}
  pool<host_resource> source;
  /// The first that is a slice, after as many of that size as it takes.
  void* slice(bytes size) {
    std::vector<void*> before;
    for (bytes i = 0; i < 65536 / size; ++i) before.push_back(source.allocate(size));
    void* const result = source.allocate(size);
    for (void* const each : before) EXPECT_TRUE(source.deallocate(each));
    return result;
  }
};

TEST(SlicesOfAPool, AreFoundNamedAndReportedAsAllocations) {
  sliced one, other;
  char* const a = static_cast<char*>(one.slice(100));
  char* const b = static_cast<char*>(other.slice(100));
  for (auto const& [its, at] : {std::pair{&one, a}, {&other, b}}) {
    for (int const offset : {0, 50, 99}) {
      auto const found = registry::find(at + offset);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->base, at);
      EXPECT_EQ(found->size, 100u);
      EXPECT_EQ(found->allocator, its->source.id());
    }
    EXPECT_FALSE(registry::find(at + 100));
    auto const allocated = registry::allocations(its->source.id());
    ASSERT_EQ(allocated.size(), 1u);
    EXPECT_EQ(allocated[0].base, at);
    EXPECT_EQ(allocated[0].size, 100u);
  }
  EXPECT_TRUE(one.source.label(a, "velocities"));
  EXPECT_FALSE(one.source.label(b, "not mine"));
  EXPECT_EQ(registry::label_of(a + 7)->name, "velocities");
  EXPECT_TRUE(one.source.deallocate(a));
  EXPECT_FALSE(registry::find(a));
  void* const again = one.source.allocate(98);  // of the same class
  EXPECT_EQ(again, a);
  EXPECT_FALSE(registry::label_of(again));
}

TEST(SlicesOfAPool, RefuseWhatIsNotInUse) {
  sliced one, other;
  char* const a = static_cast<char*>(one.slice(256));
  char* const b = static_cast<char*>(other.slice(256));
  for (char* const wrong : {a + 1, a + 16, a + 256, b, static_cast<char*>(nullptr) + 64})
    EXPECT_FALSE(one.source.deallocate(wrong));
  EXPECT_TRUE(one.source.deallocate(a));
  EXPECT_FALSE(one.source.deallocate(a));
  EXPECT_EQ(one.source.counts().invalid_frees, 6u);
  EXPECT_EQ(one.source.counts().chunks_allocated, 0u);
  EXPECT_EQ(one.source.size_of(a), std::nullopt);
  EXPECT_EQ(other.source.size_of(b), 256u);
}

TEST(SlicesOfAPool, GoBackWithTheirPoolsBlocks) {
  sliced one;
  void* const a = one.slice(64);
  EXPECT_TRUE(one.source.deallocate(a));
  one.source.release();
  EXPECT_EQ(one.source.counts().reserved, 0u);
  EXPECT_FALSE(registry::find(a));
  EXPECT_TRUE(one.source.audit().empty());
}

TEST(SlicesOfAPool, GiveWayToWhatFitsNowhereElse) {
  pool<host_resource> source{host_resource{}, {.first_block = 16_MiB, .max_bytes = 16_MiB}};
  std::vector<void*> small;
  for (int i = 0; i < 3000; ++i) small.push_back(source.allocate(64));
  for (void* const each : small) source.deallocate(each);
  void* const all = source.allocate(16_MiB);
  EXPECT_EQ(source.counts().blocks_allocated, 1u);
  EXPECT_THROW((void)source.allocate(64), out_of_memory);
  EXPECT_TRUE(source.deallocate(all));
  EXPECT_TRUE(source.audit().empty());
}

TEST(SlicesOfAPool, AreNoneWhereOptionsLookAtEachChunk) {
  for (pool_options options :
       {pool_options{.coalesce = heuristic::percent_releasable(50)}, pool_options{.red_zone = 16},
        pool_options{.keeps_backtraces = true}, pool_options{.first_block = 1_MiB}}) {
    if (options.first_block == 0) options.first_block = 32_MiB;
    pool<host_resource> source{host_resource{}, options};
    std::size_t chunks = 0;
    for (int i = 0; i < 3000; ++i) (void)source.allocate(64);
    source.for_each([&](std::uint64_t, bytes, bool is_free) { chunks += is_free; });
    EXPECT_LE(chunks, 1u);  // a slice block's free slices would be seen
  }
}

TEST(SlicesOfAPool, TileItWithAllElse) {
  sliced one;
  std::mt19937 random{7};
  std::map<void*, bytes> model;
  for (int step = 0; step < 30'000; ++step) {
    if (model.size() < 3000 || random() % 2 == 0) {
      bytes const size = random() % 50 == 0 ? random() % 200'000 : 1 + random() % 5000;
      bytes const alignment = random() % 20 == 0 ? 64u << random() % 8 : 16u;
      void* const made = one.source.allocate(size, alignment);
      ASSERT_EQ(reinterpret_cast<std::uint64_t>(made) % alignment, 0u);
      ASSERT_TRUE(model.emplace(made, size).second);
    } else {
      auto at = model.lower_bound(reinterpret_cast<void*>(
          reinterpret_cast<std::uint64_t>(model.begin()->first) + random() % 32_MiB));
      if (at == model.end()) at = model.begin();
      ASSERT_EQ(one.source.size_of(at->first), at->second);
      ASSERT_TRUE(one.source.deallocate(at->first));
      model.erase(at);
    }
    if (step % 5000 == 4999) one.source.release();
  }
  auto const problems = one.source.audit();
  ASSERT_TRUE(problems.empty()) << problems[0];
  std::uint64_t end = 0;
  std::size_t in_use = 0;
  bytes sum = 0;
  one.source.for_each([&](std::uint64_t base, bytes size, bool is_free) {
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
  EXPECT_EQ(sum, one.source.counts().reserved);
  EXPECT_EQ(in_use, model.size());
  EXPECT_EQ(one.source.counts().chunks_allocated, model.size());
  bytes allocated = 0;
  for (auto const& [base, size] : model) {
    allocated += size;
    auto const found = registry::find(static_cast<char*>(base) + (size == 0 ? 0 : size - 1));
    ASSERT_TRUE(found);
    ASSERT_EQ(found->base, base);
    ASSERT_EQ(found->size, size);
  }
  EXPECT_EQ(one.source.counts().allocated, allocated);
  EXPECT_EQ(registry::allocations(one.source.id()).size(), model.size());
}

TEST(SlicesOfAPool, AreFoundByOtherThreadsWhileTheirBlocksComeAndGo) {
  sliced one;
  char* const kept = static_cast<char*>(one.slice(200));
  std::atomic<bool> ends{false};
  std::thread looks{[&] {
    std::minstd_rand random{1};
    while (!ends) {
      auto const found = registry::find(kept + random() % 200);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->base, kept);
      ASSERT_EQ(found->size, 200u);
      // of others nothing, or one that was or is there
      char* const near = kept + random() % 1'000'000;
      if (auto const other = registry::find(near)) {
        ASSERT_LE(other->base, near);
        ASSERT_GT(static_cast<char*>(other->base) + other->size, near);
      }
    }
  }};
  std::vector<void*> reserved;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 1000; ++i)
      reserved.push_back(one.source.allocate(1 + (i * 7 + round) % 400));
    for (void* const each : reserved) ASSERT_TRUE(one.source.deallocate(each));
    reserved.clear();
    one.source.release();
  }
  ends = true;
  looks.join();
  EXPECT_TRUE(one.source.deallocate(kept));
}

TEST(SlicesOfAPool, OnlyAreSeenByOtherThreadsAndNeverTheirBlocks) {
  sliced one;
  void* const kept = one.slice(64);
  std::atomic<bool> ends{false};
  std::thread looks{[&] {
    std::minstd_rand random{1};
    auto const base = reinterpret_cast<std::uint64_t>(kept) / 32_MiB * 32_MiB;
    for (int round = 0; !ends; ++round) {
      auto const found = registry::find(reinterpret_cast<void*>(base + random() % 64_MiB));
      ASSERT_LE(found ? found->size : 0, 4096u);
      if (round % 1000 != 0) continue;
      for (auto const& each : registry::allocations(one.source.id())) ASSERT_LE(each.size, 4096u);
    }
  }};
  std::vector<void*> reserved;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 1000; ++i) reserved.push_back(one.source.allocate(i % 2 == 0 ? 4096 : 512));
    for (void* const each : reserved) ASSERT_TRUE(one.source.deallocate(each));
    reserved.clear();
    one.source.release();
  }
  ends = true;
  looks.join();
  EXPECT_TRUE(one.source.deallocate(kept));
}

TEST(SlicesOfAPool, LieInMemoryThatNobodyTouches) {
  pool<simulated_resource> source{simulated_resource{}, {.first_block = 32_MiB}};
  std::vector<void*> reserved;
  for (int i = 0; i < 5000; ++i) reserved.push_back(source.allocate(48));
  EXPECT_EQ(source.counts().chunks_allocated, 5000u);
  for (void* const each : reserved) EXPECT_TRUE(source.deallocate(each));
  EXPECT_EQ(source.counts().chunks_allocated, 0u);
  EXPECT_TRUE(source.audit().empty());
}

}  // namespace slices_test
}  // namespace quarry::test
