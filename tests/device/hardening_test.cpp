// SPDX-License-Identifier: Apache-2.0
// Each mitigation has a kernel that must trip exactly its record. Built with QUARRY_HARDENED, they run; otherwise the test says
// that the checks cost nothing.
#include "quarry/device/hardening.hpp"

#include "support/machines.hpp"

namespace quarry {
namespace {

constexpr heap_options small{.bytes = 4_MiB, .segment_bytes = 64_KiB, .seed = 42};

template <class Machine>
struct Hardening : testing::Test {
  void SetUp() override {
    if (mitigations == mitigation::none) GTEST_SKIP() << "built without QUARRY_HARDENED";
  }
};
TYPED_TEST_SUITE(Hardening, test::machines, test::machine_names);

TEST(HardeningOff, AddsNoBytes) {
  if (mitigations != mitigation::none) GTEST_SKIP() << "built with QUARRY_HARDENED";
  EXPECT_EQ(hardening::padded(100), 100u);
  EXPECT_EQ(hardening::usable(112), 112u);
}

struct write_past_the_end {
  heap_ref heap;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<char*>(heap.malloc(40));
    p[heap.usable_size(p)] = 1;  // one byte too far
    heap.free(p);
  }
};

TYPED_TEST(Hardening, CanaryFindsAnOverflow) {
  TypeParam const machine;
  auto const heap = machine.make_heap(small);
  machine.run({1, 1}, write_past_the_end{heap.ref()});
  EXPECT_EQ(heap.fault_count(fault_kind::overflow), 1u);
  EXPECT_EQ(heap.first_fault()->kind, fault_kind::overflow);
}

struct write_after_free {
  heap_ref heap;

  QUARRY_HD void operator()() const {
    auto* const p = static_cast<char*>(heap.malloc(40));
    heap.free(p);
    p[8] = 1;
    // Until it comes round again.
    for (std::uint32_t i = 0; i < 3 * quarantine_slots; ++i) heap.free(heap.malloc(40));
  }
};

TYPED_TEST(Hardening, PoisonFindsAWriteAfterFree) {
  TypeParam const machine;
  auto const heap = machine.make_heap({.bytes = 64_KiB, .segment_bytes = 64_KiB, .seed = 42});
  machine.run({1, 1}, write_after_free{heap.ref()});
  EXPECT_EQ(heap.fault_count(fault_kind::use_after_free), 1u);
  EXPECT_EQ(heap.first_fault()->kind, fault_kind::use_after_free);
}

struct free_twice {
  heap_ref heap;
  void** pointers;

  QUARRY_HD void operator()() const {
    pointers[0] = heap.malloc(40);
    heap.free(pointers[0]);
    heap.free(pointers[0]);
    pointers[1] = heap.malloc(40);
  }
};

TYPED_TEST(Hardening, QuarantineHoldsBackWhatWasFreedAndFindsADoubleFree) {
  TypeParam const machine;
  auto const heap = machine.make_heap(small);
  typename TypeParam::template array<void*> pointers(2);
  machine.run({1, 1}, free_twice{heap.ref(), pointers.data()});
  EXPECT_NE(pointers.data()[0], pointers.data()[1]);
  EXPECT_EQ(heap.fault_count(fault_kind::double_free), 1u);
  EXPECT_EQ(heap.live_allocations().size(), 1u);
}

struct first_address {
  heap_ref heap;
  std::uint64_t base;
  std::uint64_t* offset;

  QUARRY_HD void operator()() const { *offset = reinterpret_cast<std::uint64_t>(heap.malloc(40)); }
};

TYPED_TEST(Hardening, StartsAtARandomPlace) {
  TypeParam const machine;
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    auto options = small;
    options.seed = seed;
    auto const heap = machine.make_heap(options);
    typename TypeParam::template array<std::uint64_t> offset(1);
    machine.run({1, 1}, first_address{heap.ref(), 0, offset.data()});
    offsets.push_back(offset.data()[0] >> 16 & 0x3f);
  }
  std::sort(offsets.begin(), offsets.end());
  EXPECT_NE(offsets.front(), offsets.back());
}

}  // namespace
}  // namespace quarry
