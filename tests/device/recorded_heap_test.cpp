// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/recorded_heap.hpp"

#include "support/backends.hpp"

#include <map>

namespace quarry {
namespace recorded_heap_test {

using namespace test;

/// Each lane allocates `count` times, keeps the last allocation and frees the others.
struct allocate_and_free {
  recorded_heap_ref heap;
  void** kept;
  std::uint32_t count;

  QUARRY_HD void operator()() const {
    std::uint64_t const lane = simt::this_place().rank();
    for (std::uint32_t i = 0; i < count; ++i) {
      void* const pointer = heap.malloc(16 * (lane % 4 + 1) + i);
      if (i + 1 == count) {
        kept[lane] = pointer;
      } else {
        heap.free(pointer);
      }
    }
  }
};

struct free_each {
  recorded_heap_ref heap;
  void** kept;
  QUARRY_HD void operator()() const { heap.free(kept[simt::this_place().rank()]); }
};

/// Lanes use two recorded heaps in one call.
struct use_two {
  recorded_heap_ref first, second;
  QUARRY_HD void operator()() const {
    auto const chosen = simt::this_place().rank() % 2 == 0 ? first : second;
    chosen.free(chosen.malloc(100));
  }
};

/// Asks for more than the heap has.
struct fail_once {
  recorded_heap_ref heap;
  QUARRY_HD void operator()() const {
    if (simt::this_place().rank() == 0) (void)heap.malloc(bytes{1} << 40);
    heap.free(nullptr);
  }
};

template <class Backend>
class RecordedHeap : public testing::Test {
 protected:
  static std::vector<heap_event> drained(heap_recorder& recorder) {
    std::vector<heap_event> events;
    recorder.drain([&](heap_event const& each) { events.push_back(each); });
    return events;
  }
};
TYPED_TEST_SUITE(RecordedHeap, backends, backend_names);

TYPED_TEST(RecordedHeap, EveryCallIsAnEventAndNoAddressIsAllocatedTwice) {
  for (auto const seed : TypeParam::seeds()) {
    TypeParam const backend{seed};
    auto heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
    heap_recorder recorder{heap, {.buffers = 3, .events_per_buffer = 4096}};
    typename TypeParam::template array<void*> kept(128);
    backend.run({2, 64}, allocate_and_free{recorder.ref(), kept.data(), 5});
    std::map<std::uint64_t, bytes> live;
    std::uint64_t last = 0;
    auto const events = this->drained(recorder);
    EXPECT_EQ(events.size(), 128u * 9);
    for (heap_event const& each : events) {
      EXPECT_GE(each.time, last);
      last = each.time;
      if (each.kind == heap_event_kind::allocate) {
        EXPECT_GE(each.size, 16u);
        EXPECT_TRUE(live.emplace(each.address, each.size).second) << "seed " << seed;
      } else {
        EXPECT_EQ(live.erase(each.address), 1u) << "seed " << seed;
      }
    }
    auto const allocations = heap.live_allocations();
    ASSERT_EQ(allocations.size(), live.size());
    for (auto const& each : allocations)
      EXPECT_TRUE(live.contains(reinterpret_cast<std::uint64_t>(each.address)));
    backend.run({2, 64}, free_each{recorder.ref(), kept.data()});
    EXPECT_EQ(this->drained(recorder).size(), 128u);
    EXPECT_TRUE(this->drained(recorder).empty());
    EXPECT_EQ(recorder.lost(), 0u);
    EXPECT_EQ(heap.stats().allocations_in_use, 0u);
  }
}

TYPED_TEST(RecordedHeap, AFullBufferDropsEventsAndCountsThem) {
  TypeParam const backend{1};
  auto heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  heap_recorder recorder{heap, {.buffers = 1, .events_per_buffer = 10}};
  typename TypeParam::template array<void*> kept(64);
  backend.run({1, 64}, allocate_and_free{recorder.ref(), kept.data(), 1});
  EXPECT_EQ(this->drained(recorder).size(), 10u);
  EXPECT_EQ(recorder.lost(), 54u);
  backend.run({1, 64}, free_each{recorder.ref(), kept.data()});
  EXPECT_EQ(this->drained(recorder).size(), 10u) << "the buffer was emptied";
  EXPECT_EQ(recorder.lost(), 108u);
}

TYPED_TEST(RecordedHeap, HeapsInOneKernelKeepTheirEventsApart) {
  TypeParam const backend{1};
  auto first = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  auto second = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  heap_recorder a{first}, b{second};
  backend.run({2, 64}, use_two{a.ref(), b.ref()});
  for (auto const& [recorder, owner] : {std::pair{&a, &first}, std::pair{&b, &second}}) {
    auto const events = this->drained(*recorder);
    EXPECT_EQ(events.size(), 128u);
    auto const base = reinterpret_cast<std::uint64_t>(owner->region());
    for (heap_event const& each : events) {
      EXPECT_GE(each.address, base);
      EXPECT_LT(each.address, base + owner->region_bytes());
    }
  }
}

TYPED_TEST(RecordedHeap, FailuresAreEventsAndNullFreesAreNot) {
  TypeParam const backend{1};
  auto heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  heap_recorder recorder{heap};
  backend.run({1, 32}, fail_once{recorder.ref()});
  auto const events = this->drained(recorder);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, heap_event_kind::fail);
  EXPECT_EQ(events[0].size, bytes{1} << 40);
  EXPECT_EQ(events[0].address, 0u);
}

TYPED_TEST(RecordedHeap, RefusesBuffersThatCannotBe) {
  TypeParam const backend{1};
  auto heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  EXPECT_THROW((heap_recorder{heap, {.buffers = 0}}), bad_argument);
  EXPECT_THROW((heap_recorder{heap, {.events_per_buffer = 0}}), bad_argument);
  EXPECT_THROW((heap_recorder{heap, {.events_per_buffer = (1u << 24) + 1}}), bad_argument);
}

}  // namespace recorded_heap_test
}  // namespace quarry
