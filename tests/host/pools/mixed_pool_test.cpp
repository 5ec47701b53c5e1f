// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/mixed_pool.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/allocators.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <random>
#include <utility>

namespace quarry::test {
namespace mixed_pool_test {

using host_mixed = mixed_pool<host_resource>;
using simulated_mixed = mixed_pool<simulated_resource>;
mixed_options small() {
  return {.min_slot = 16,
          .max_slot = 512,
          .slab = 4096,
          .large = {.first_block = 64_KiB, .next_block = 64_KiB}};
}
host_mixed make() { return host_mixed{host_resource{}, small()}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("MixedPool", all{});

TEST(MixedPool, FreesByTheAddress) {
  host_mixed source = make();
  void* const a = source.allocate(100);
  void* const b = source.allocate(100);
  void* const c = source.allocate(513);
  EXPECT_EQ(source.size_of(a), 128u);
  EXPECT_EQ(source.size_of(c), 513u);
  EXPECT_EQ(source.counts().granted, 128u + 128 + 513);
  EXPECT_EQ(source.counts().allocations_in_use, 3u);
  EXPECT_EQ(source.counts().slabs, 1u);
  EXPECT_TRUE(source.deallocate(a));
  EXPECT_FALSE(source.size_of(a));
  EXPECT_TRUE(source.deallocate(c));
  EXPECT_TRUE(source.deallocate(b));
  EXPECT_TRUE(source.deallocate(nullptr));
  EXPECT_EQ(source.counts().granted, 0u);
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
  EXPECT_EQ(source.counts().invalid_frees, 0u);
  EXPECT_EQ(source.counts().reserved, 64_KiB);
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
  EXPECT_EQ(source.counts().peak_reserved, 64_KiB);
  EXPECT_TRUE(source.audit().empty());
}

TEST(MixedPool, RefusesInvalidFreesAndChangesNothing) {
  host_mixed source = make();
  host_mixed other = make();
  auto* const a = static_cast<char*>(source.allocate(100));
  auto* const b = static_cast<char*>(source.allocate(1000));
  auto* const foreign = other.allocate(100);
  int local = 0;
  for (void* const wrong : {static_cast<void*>(a + 16), static_cast<void*>(a + 128),
                            static_cast<void*>(b + 16), foreign, static_cast<void*>(&local)}) {
    EXPECT_FALSE(source.deallocate(wrong));
    EXPECT_FALSE(source.size_of(wrong));
  }
  EXPECT_EQ(source.counts().invalid_frees, 5u);
  EXPECT_TRUE(source.deallocate(a));
  EXPECT_FALSE(source.deallocate(a));
  EXPECT_EQ(source.counts().allocations_in_use, 1u);
  EXPECT_TRUE(source.audit().empty());
}

TEST(MixedPool, AlignsToPowersOfTwo) {
  host_mixed source = make();
  for (bytes const size : {bytes{1}, bytes{100}, bytes{600}}) {
    for (bytes alignment = 1; alignment <= 64_KiB; alignment *= 2) {
      void* const a = source.allocate(size, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % alignment, 0u) << size << ' ' << alignment;
    }
  }
  EXPECT_THROW((void)source.allocate(10, 24), bad_argument);
  EXPECT_THROW((void)source.allocate(10, 0), bad_argument);
}

TEST(MixedPool, RefusesInvalidOptions) {
  auto const sized = [](bytes min_slot, bytes max_slot, bytes slab) {
    return mixed_options{.min_slot = min_slot, .max_slot = max_slot, .slab = slab};
  };
  for (auto const& options : {sized(4, 64, 4096), sized(24, 64, 4096), sized(64, 32, 4096),
                              sized(16, 1024, 4096), sized(16, 100, 4096), sized(16, 64, 5000),
                              sized(16, 64, bytes{1} << 31), sized(0, 64, 4096)})
    EXPECT_THROW((host_mixed{host_resource{}, options}), bad_argument);
}

TEST(MixedPool, ReturnsAllEmptySlabsButOnePerSize) {
  simulated_mixed source{simulated_resource{}, small()};
  std::vector<void*> slots;
  for (int i = 0; i < 3 * 8; ++i) slots.push_back(source.allocate(512));  // 8 slots per slab
  EXPECT_EQ(source.counts().slabs, 3u);
  for (void* each : slots) EXPECT_TRUE(source.deallocate(each));
  EXPECT_EQ(source.counts().slabs, 1u);
  EXPECT_TRUE(source.audit().empty());
  source.coalesce(0);
  EXPECT_EQ(source.counts().slabs, 0u);
}

TEST(MixedPool, ChangesNothingWhenMemoryRunsOut) {
  mixed_pool source{
      limited_resource{host_resource{}, 8192},
      {.max_slot = 512, .slab = 4096, .large = {.first_block = 4096, .next_block = 4096}}};
  void* const a = source.allocate(10);
  auto const counts_before = source.counts();
  EXPECT_THROW((void)source.allocate(10'000), out_of_memory);
  EXPECT_EQ(source.counts().granted, counts_before.granted);
  EXPECT_EQ(source.size_of(a), 16u);
  EXPECT_TRUE(source.audit().empty());
}

TEST(MixedPool, MayBeANamedAllocator) {
  any_allocator source = allocators::make<host_mixed>("mixed", host_resource{}, small());
  any_allocator other = allocators::make<host_mixed>("other", host_resource{}, small());
  void* const a = source.allocate(100);
  void* const b = source.allocate(100);
  void* const c = other.allocate(5000);
  EXPECT_EQ(allocators::owner_of(b), source);
  EXPECT_EQ(allocators::owner_of(c), other);
  EXPECT_EQ(source.size_of(b), 100u) << "the size as requested";
  operations::deallocate(b);
  EXPECT_THROW(operations::deallocate(b), bad_argument);
  operations::deallocate(operations::move(a, other));
  operations::deallocate(c);
  allocators::destroy("mixed");
  allocators::destroy("other");
}

TEST(MixedPool, AgreesWithAModel) {
  unsigned const seed = 9;
  std::mt19937 random{seed};
  simulated_mixed source{simulated_resource{}, small()};
  std::map<std::uint64_t, bytes> model;
  for (int step = 0; step < 20'000; ++step) {
    if (model.size() < 100 || (random() % 2 == 0 && model.size() < 2000)) {
      bytes const size = random() % 8 == 0 ? random() % 5000 : random() % 512;
      auto const at = reinterpret_cast<std::uint64_t>(source.allocate(size));
      auto const next = model.lower_bound(at);
      ASSERT_TRUE(next == model.end() || at + size <= next->first);
      ASSERT_TRUE(next == model.begin() || std::prev(next)->first + std::prev(next)->second <= at);
      model.emplace(at, std::max<bytes>(size, 1));
    } else {
      auto const freed = std::next(model.begin(), static_cast<long>(random() % model.size()));
      ASSERT_TRUE(source.deallocate(reinterpret_cast<void*>(freed->first)));
      ASSERT_FALSE(source.deallocate(reinterpret_cast<void*>(freed->first + 8)));
      model.erase(freed);
    }
    if (step % 500 == 0) {
      ASSERT_EQ(source.audit(), std::vector<std::string>{});
      ASSERT_EQ(source.counts().allocations_in_use, model.size());
    }
    if (step % 3000 == 0) source.release();
  }
}

/// The rule of the heuristic of the inner pool may call the mixed pool.
TEST(MixedPool, ServesARuleThatUsesIt) {
  for (bool const is_before_growth : {false, true}) {
    mixed_pool<host_resource>* tested_pool = nullptr;
    std::mt19937 random{7};
    std::vector<void*> of_rule;
    int times = 0;
    auto const rule = [&](pool_state const&) -> bytes {
      if (tested_pool == nullptr) return 0;
      ++times;
      for (int i = 0; i < 40; ++i)
        of_rule.push_back(tested_pool->allocate(std::size_t{8} << random() % 6));
      while (of_rule.size() > 60) {
        std::swap(of_rule[random() % of_rule.size()], of_rule.back());
        EXPECT_TRUE(tested_pool->deallocate(of_rule.back()));
        of_rule.pop_back();
      }
      tested_pool->release();
      EXPECT_TRUE(tested_pool->audit().empty());
      return 0;
    };
    mixed_options options{.max_slot = 512, .slab = 4096};
    options.large.coalesce = heuristic::by_rule(rule);
    if (is_before_growth) options.large.coalesce = options.large.coalesce.before_growth();
    options.large.first_block = options.large.next_block = 16384;
    mixed_pool made{host_resource{}, options};
    tested_pool = &made;
    std::vector<void*> pointers;
    for (int step = 0; step < 3000; ++step) {
      if (pointers.empty() || random() % 2 == 0 || step % 500 < 200) {
        pointers.push_back(made.allocate(std::size_t{16} << random() % 8));
      } else {
        std::swap(pointers[random() % pointers.size()], pointers.back());
        ASSERT_TRUE(made.deallocate(pointers.back()));
        pointers.pop_back();
      }
      if (step % 100 == 0) made.release();
      ASSERT_TRUE(made.audit().empty());
    }
    for (void* each : pointers) EXPECT_TRUE(made.deallocate(each));
    for (void* each : std::exchange(of_rule, {})) EXPECT_TRUE(made.deallocate(each));
    tested_pool = nullptr;
    EXPECT_EQ(made.counts().invalid_frees, 0u);
    EXPECT_GT(times, 10);
  }
}

}  // namespace mixed_pool_test
}  // namespace quarry::test
