// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/any_allocator.hpp"

#include "host/scoped_allocator.hpp"
#include "quarry/host/pools/mixed_pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/fixed_size_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/monotonic_resource.hpp"
#include "quarry/platform/host_pages.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quarry::test {
namespace any_allocator_test {

using namespace quarry::literals;

TEST(AnyAllocator, ForwardsEachCallToItsPool) {
  scoped_allocator const first{
      allocators::make_pool("any", host_resource{}, {.first_block = 64_KiB, .next_block = 64_KiB})};
  scoped_allocator const second{
      allocators::make_pool<chunk_arena<segregated_fit>>("other", host_resource{})};
  any_allocator const source = first.handle;  // calls change the allocator, not the handle
  EXPECT_EQ(source.name(), "any");
  EXPECT_NE(source.id(), second.handle.id());
  EXPECT_EQ(registry::name_of(source.id()), "any");
  EXPECT_EQ(source.location(), memory_location{});

  void* const a = source.allocate(1000);
  void* const b = source.allocate(100, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 4096, 0u);
  EXPECT_EQ(source.size_of(a), 1000u);
  EXPECT_FALSE(second.handle.size_of(a));
  EXPECT_EQ(source.counts().allocated, 1100u);
  EXPECT_EQ(source.counts().allocations_in_use, 2u);
  EXPECT_EQ(source.counts().reserved, 64_KiB);
  EXPECT_EQ(second.handle.counts().reserved, 0u);

  EXPECT_TRUE(source.deallocate(a));
  EXPECT_FALSE(source.deallocate(a));
  EXPECT_TRUE(source.deallocate(b));
  EXPECT_TRUE(source.deallocate(nullptr));
  EXPECT_EQ(source.counts().invalid_frees, 1u);
  EXPECT_EQ(source.counts().peak_allocated, 1100u);
  source.release();
  EXPECT_EQ(source.counts().reserved, 0u);
  source.coalesce(128_KiB);
  EXPECT_EQ(source.counts().reserved, 128_KiB);
  EXPECT_EQ(source.counts().peak_reserved, 128_KiB);
}

TEST(AnyAllocator, PassesTheSizeAndAlignmentOfAFreeToItsResource) {
  using limited = limited_resource<host_resource>;
  scoped_allocator const allocator{
      allocators::make<limited>("limited", host_resource{}, bytes{1000})};
  any_allocator source = allocator.handle;
  void* const a = source.allocate(600);
  EXPECT_THROW((void)source.allocate(600), out_of_memory);
  EXPECT_EQ(source.counts().allocations_in_use, 1u);
  EXPECT_TRUE(source.deallocate(a));
  EXPECT_FALSE(source.deallocate(a));
  void* const b = source.allocate(1000, 256);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 256, 0u);
  EXPECT_EQ(source.size_of(b), 1000u);
  EXPECT_FALSE(source.size_of(static_cast<char*>(b) + 16));
  EXPECT_EQ(registry::find(static_cast<char*>(b) + 16)->allocator, source.id());
  EXPECT_TRUE(source.deallocate(b));
  EXPECT_EQ(source.counts().allocated, 0u);
  EXPECT_EQ(source.counts().peak_allocated, 1000u);
  EXPECT_EQ(source.counts().invalid_frees, 1u);
}

TEST(AnyAllocator, NamesAllocationsForReports) {
  scoped_allocator const first{allocators::make_pool("fields", host_resource{})};
  scoped_allocator const second{allocators::make<host_resource>("arrays")};
  for (any_allocator source : {first.handle, second.handle}) {
    void* const a = source.allocate(100, "density");
    void* const b = source.allocate(100);
    EXPECT_EQ(registry::label_of(a)->name, "density");
    EXPECT_NE(std::string{registry::label_of(a)->call_site.file_name()}.find("any_allocator_test"),
              std::string::npos);
    EXPECT_TRUE(source.label(b, "energy"));
    EXPECT_EQ(registry::label_of(b)->name, "energy");
    EXPECT_FALSE(source.label(static_cast<char*>(b) + 16, "none"));
  }
}

TEST(AnyAllocator, IsAResourceForPools) {
  scoped_allocator const below{allocators::make<host_resource>("below")};
  {
    pool above{below.handle.as_resource(), {.first_block = 64_KiB, .next_block = 64_KiB}};
    pool second{below.handle.as_resource(), {.first_block = 32_KiB}};
    void* const a = above.allocate(100);
    void* const b = second.allocate(100);
    std::memset(a, 1, 100);
    EXPECT_EQ(below.handle.counts().allocated, 96_KiB);
    EXPECT_EQ(registry::find(a)->allocator, above.id())
        << "find() returns the innermost allocation";
    EXPECT_TRUE(second.deallocate(b));
  }
  EXPECT_EQ(below.handle.counts().allocations_in_use, 0u);
}

TEST(AnyAllocator, AsAResourceFreesItsOwnBlocksAlone) {
  scoped_allocator const below{allocators::make<host_resource>("below")};
  auto source = below.handle.as_resource();
  void* const block = source.allocate(100, 16);
  void* const other = below.handle.allocate(100);
  EXPECT_FALSE(source.deallocate(other, 100, 16));
  EXPECT_TRUE(source.deallocate(block, 100, 16));
  EXPECT_FALSE(source.deallocate(block, 100, 16));
  EXPECT_EQ(below.handle.counts().allocations_in_use, 1u);
  EXPECT_TRUE(below.handle.deallocate(other));
}

TEST(AnyAllocator, ManagesStitchedPoolsAndFixedSizeResources) {
  scoped_allocator const first{
      allocators::make<stitched_pool<host_pages>>("stitched", host_pages{64_KiB})};
  scoped_allocator const second{
      allocators::make<fixed_size_resource<host_resource>>("slots", host_resource{}, bytes{64})};
  for (any_allocator source : {first.handle, second.handle}) {
    void* const a = source.allocate(64);
    std::memset(a, 1, 64);
    EXPECT_EQ(source.counts().allocations_in_use, 1u);
    EXPECT_TRUE(source.deallocate(a));
    source.release();
    source.coalesce(1);
  }
  EXPECT_THROW((void)second.handle.allocate(65), out_of_memory);
}

TEST(AnyAllocator, ReleaseKeepsAllocatedMemory) {
  for (bool const is_wrapped : {false, true}) {
    using monotonic = monotonic_resource<host_resource>;
    scoped_allocator const allocator{
        is_wrapped ? allocators::make<any_resource>("monotonic", monotonic{host_resource{}, 64_KiB})
                   : allocators::make<monotonic>("monotonic", host_resource{}, 64_KiB)};
    auto* const memory = static_cast<char*>(allocator.handle.allocate(100));
    std::memset(memory, 7, 100);
    allocator.handle.release();
    EXPECT_EQ(memory[99], 7);  // AddressSanitizer checks this access
    EXPECT_EQ(allocator.handle.counts().allocated, 100u);
  }
}

TEST(AnyAllocator, CoalescesAMixedPool) {
  scoped_allocator const allocator{allocators::make<mixed_pool<host_resource>>(
      "mixed", host_resource{},
      mixed_options{.large = {.first_block = 1_MiB, .next_block = 1_MiB}})};
  std::vector<void*> pointers;
  for (int i = 0; i < 8; ++i) pointers.push_back(allocator.handle.allocate(1_MiB));
  for (void* const each : pointers) EXPECT_TRUE(allocator.handle.deallocate(each));
  ASSERT_EQ(allocator.handle.counts().reserved, 8_MiB);
  allocator.handle.coalesce(4_MiB);
  EXPECT_EQ(allocator.handle.counts().reserved, 4_MiB);
}

TEST(AnyAllocator, RefusesEveryCallAfterItsAllocatorWasDestroyed) {
  any_allocator source = allocators::make_pool("short-lived", host_resource{});
  any_allocator const copy = source;
  EXPECT_TRUE(copy.is_alive());
  EXPECT_EQ(source, copy);
  void* const a = source.allocate(10);
  EXPECT_TRUE(source.deallocate(a));
  allocators::destroy("short-lived");
  scoped_allocator const next{allocators::make_pool("short-lived", host_resource{})};
  EXPECT_FALSE(copy.is_alive());
  EXPECT_NE(source, next.handle) << "the new allocator may have the same slot";
  auto const expect_refusal = [](std::string const& function, auto const& call) {
    try {
      call();
      ADD_FAILURE() << function << " did not throw";
    } catch (was_destroyed const& failure) {
      EXPECT_TRUE(failure.message().starts_with("any_allocator::" + function + ": "))
          << failure.message();
      EXPECT_NE(failure.message().find("was destroyed"), std::string::npos) << failure.message();
    }
  };
  expect_refusal("allocate", [&] { (void)source.allocate(10); });
  expect_refusal("allocate", [&] { (void)source.allocate(10, "x"); });
  expect_refusal("label", [&] { (void)source.label(a, "x"); });
  expect_refusal("size_of", [&] { (void)source.size_of(a); });
  expect_refusal("counts", [&] { (void)source.counts(); });
  expect_refusal("location", [&] { (void)source.location(); });
  expect_refusal("id", [&] { (void)source.id(); });
  expect_refusal("name", [&] { (void)source.name(); });
  expect_refusal("release", [&] { source.release(); });
  expect_refusal("coalesce", [&] { source.coalesce(1); });
  EXPECT_FALSE(source.deallocate(a));
  EXPECT_TRUE(source.deallocate(nullptr));
}

TEST(AnyAllocator, RefusesCallsFromWithinACallOnIt) {
  std::optional<any_allocator> self, other_self;
  int refusals = 0, served = 0;
  auto const rule = [&](pool_state const&) -> bytes {
    try {
      (void)self->counts();
    } catch (bad_argument const& failure) {
      refusals += failure.message().find("in a call of this thread already") != std::string::npos;
    }
    EXPECT_FALSE(self->deallocate(&refusals));
    served += other_self->deallocate(other_self->allocate(10));
    return 0;
  };
  scoped_allocator const second{allocators::make_pool("other", host_resource{})};
  scoped_allocator const first{
      allocators::make_pool("ruled", host_resource{}, {.coalesce = heuristic::by_rule(rule)})};
  self = first.handle;
  other_self = second.handle;
  EXPECT_TRUE(self->deallocate(self->allocate(10)));
  EXPECT_EQ(refusals, 1);
  EXPECT_EQ(served, 1);
  EXPECT_EQ(self->counts().allocations_in_use, 0u) << "the handle accepts calls again";
}

/// A stream-ordered resource. Counts the allocations before the next synchronize().
struct ordered_resource {
  struct state {
    int unsynchronized = 0, synchronized = 0, freed = 0;
    bool fails = false;
  };
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    ++all->unsynchronized;
    return source.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    ++all->freed;
    source.deallocate(pointer, size, alignment);
  }
  void synchronize() const {
    if (all->fails) throw resource_failed{"ordered_resource", "its stream failed"};
    all->synchronized += std::exchange(all->unsynchronized, 0);
  }
  state* all;
  host_resource source{};
};

TEST(AnyAllocator, SynchronizesItsResourceBeforeItReturnsMemory) {
  ordered_resource::state all;
  scoped_allocator const low{allocators::make<ordered_resource>("low", &all)};
  scoped_allocator const other{allocators::make<limited_resource<ordered_resource>>(
      "limited", ordered_resource{&all}, 1_MiB)};
  scoped_allocator const high{allocators::make_pool("high", low.handle)};
  for (any_allocator source : {low.handle, other.handle, high.handle}) {
    void* const a = source.allocate(100);
    EXPECT_EQ(all.unsynchronized, 0);
    EXPECT_TRUE(source.deallocate(a));
  }
  EXPECT_EQ(all.synchronized, 3) << "one of the three is for the pool's block";
  all.fails = true;
  for (any_allocator source : {low.handle, other.handle}) {
    int const freed_before = all.freed;
    EXPECT_THROW((void)source.allocate(100), resource_failed);
    EXPECT_EQ(all.freed, freed_before + 1) << "the failed call freed its memory";
    EXPECT_EQ(source.counts().allocated, source == low.handle ? high.handle.counts().reserved : 0);
  }
}

}  // namespace any_allocator_test
}  // namespace quarry::test
