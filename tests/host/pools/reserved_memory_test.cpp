// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/reserved_memory.hpp"

#include "quarry/host/pools/caching_arena.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace reserved_memory_test {

TEST(ReservedMemory, KeepsThePeakOfReservedBytes) {
  reserved_memory memory{"tried", 1000};
  memory.add(600);
  memory.remove(200);
  memory.add(100);
  EXPECT_EQ(memory.reserved(), 500u);
  EXPECT_EQ(memory.peak(), 600u);
}

TEST(ReservedMemory, RefusesARequestBeyondTheLimitAndReportsTheLimit) {
  reserved_memory memory{"tried", 1000};
  memory.add(600);
  EXPECT_EQ(memory.left(400, 400), 400u);
  EXPECT_EQ(memory.left(16, 16, 16), 400u);
  EXPECT_EQ(memory.left(16, 16, 256), 256u);
  try {
    (void)memory.left(401, 390);
    FAIL();
  } catch (out_of_memory const& failure) {
    EXPECT_STREQ(failure.what(),
                 "tried: no memory for 390 bytes: 600 bytes are reserved, and the limit is 1000");
  }
  EXPECT_TRUE(memory.may_reserve(1000));
  EXPECT_FALSE(memory.may_reserve(1001));
}

TEST(ReservedMemory, RoundsSizesUpAndRefusesSizesThatNoResourceCanServe) {
  reserved_memory const memory{"tried", ~bytes{0}};
  EXPECT_EQ(memory.sizes_for(0, 64).granted, 64u);
  EXPECT_EQ(memory.sizes_for(65, 64).requested, 65u);
  EXPECT_EQ(memory.sizes_for(65, 64).granted, 128u);
  EXPECT_THROW((void)memory.sizes_for(max_bytes_at_once + 1, 64), out_of_memory);
}

TEST(ReservedMemory, LabelsAllocationsOnlyOfATrackedPool) {
  fast_fit arena;
  reserved_memory memory{"tried", ~bytes{0}};
  void* const pointer = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
  EXPECT_EQ(memory.id(), 0u);
  EXPECT_FALSE(memory.label(arena, pointer, {"one", {}}));
  memory.track(arena.chunks(), memory_location{}, "tried");
  EXPECT_NE(memory.id(), 0u);
  EXPECT_FALSE(memory.label(arena, pointer, {"one", {}})) << "the address is not allocated";
  memory.tracking()->add_block(1 << 20, 4096);
  arena.reserve();
  (void)arena.allocate_in({1 << 20, 4096}, {4096, 4096});
  EXPECT_TRUE(memory.label(arena, pointer, {"one", {}}));
  EXPECT_EQ(memory.tracking()->label_of(1 << 20)->name, "one");
  bool was_labelled = false;
  (void)arena.deallocate(1 << 20, [&] { was_labelled = true; });
  EXPECT_TRUE(was_labelled);
  memory.tracking()->remove_block(1 << 20, 4096);
}

}  // namespace reserved_memory_test
}  // namespace quarry::test
