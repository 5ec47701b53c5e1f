// SPDX-License-Identifier: Apache-2.0
#include "quarry/heap_trace.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/recorded_resource.hpp"
#include "quarry/trace/replay.hpp"
#include "support/backends.hpp"
#include "trace/recorded_file.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace quarry {
namespace heap_trace_test {

using namespace test;
using trace::event;
using trace::event_kind;
using trace::recorder;

/// Each lane allocates `count` times, keeps the last allocation and frees the others.
struct allocate_some {
  recorded_heap_ref heap;
  void** kept;
  std::uint32_t count;

  QUARRY_HD void operator()() const {
    std::uint64_t const lane = simt::this_place().rank();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i > 0) heap.free(kept[lane]);
      kept[lane] = heap.malloc(16 + lane % 64);
    }
  }
};
struct free_kept {
  recorded_heap_ref heap;
  void** kept;
  QUARRY_HD void operator()() const { heap.free(kept[simt::this_place().rank()]); }
};
/// Lanes use two heaps alternately.
struct use_both {
  recorded_heap_ref first, second;
  QUARRY_HD void operator()() const {
    bool const is_even = simt::this_place().rank() % 2 == 0;
    (is_even ? first : second).free((is_even ? first : second).malloc(100));
    (is_even ? second : first).free((is_even ? second : first).malloc(200));
  }
};
struct ask_for_too_much {
  recorded_heap_ref heap;
  QUARRY_HD void operator()() const { (void)heap.malloc(bytes{1} << 40); }
};

template <class Backend>
class HeapTrace : public testing::Test {
 protected:
  /// Runs kernels of the back end.
  struct launcher {
    template <class Kernel>
    void operator()(simt::grid lanes, Kernel const& kernel) const {
      Backend{1}.run(lanes, kernel);
    }
  };
  static heap make_heap() {
    return Backend{1}.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  }
  /// Separates events of the host from those of kernels by more than the error of the clocks.
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds{2}); }

  /// The index of the phase `name`.
  static std::ptrdiff_t phase(recorded_file const& file, std::string_view name) {
    auto const found = std::find_if(file.events.begin(), file.events.end(), [&](event const& each) {
      return each.kind == event_kind::phase && file.names.call_sites.name(each.call_site) == name;
    });
    EXPECT_NE(found, file.events.end()) << name;
    return found - file.events.begin();
  }
  static std::uint32_t allocator(recorded_file const& file, std::string_view name) {
    auto const& names = file.names.allocators.names();
    return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
  /// Expects that each address of an allocator is free when it is allocated and allocated when it
  /// is freed, and that times ascend. A free of a kernel has no size.
  static void expect_order(recorded_file const& file) {
    std::map<std::uint32_t, std::set<std::uint64_t>> live;
    std::uint64_t time = 0;
    for (event const& each : file.events) {
      EXPECT_GE(each.time, time);
      time = each.time;
      if (each.kind == event_kind::allocate) {
        EXPECT_TRUE(live[each.allocator].insert(each.address).second);
      } else if (each.kind == event_kind::deallocate) {
        EXPECT_EQ(live[each.allocator].erase(each.address), 1u);
      }
    }
  }
};
TYPED_TEST_SUITE(HeapTrace, backends, backend_names);

TYPED_TEST(HeapTrace, OneTraceShowsBothSidesOfTheLaunchInTheOrderOfTime) {
  TypeParam const backend{1};
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  trace::recorded_resource pool{host_resource{}, target, "arrays"};
  auto heap = this->make_heap();
  typename TypeParam::template array<void*> kept(128);
  std::uint64_t lanes_events = 0;
  {
    heap_trace kernels{typename TestFixture::launcher{}, heap, target, "nodes"};
    void* const array = pool.allocate(1000, 16);
    target->phase("insert");
    this->pause();
    backend.run({2, 64}, allocate_some{kernels.ref(), kept.data(), 3});
    this->pause();
    target->phase("inserted");
    pool.deallocate(array, 1000, 16);  // before the drain, but after the kernel
    kernels.drain("insert_nodes");
    target->phase("erase");
    this->pause();
    backend.run({2, 64}, free_kept{kernels.ref(), kept.data()});
    EXPECT_EQ(kernels.lost() + kernels.late(), 0u);
    if (heap.backend_kind() == backend::cuda) {
      EXPECT_LT(kernels.clock_error_ns(), 2'000'000u);
    }
  }  // drains the second kernel
  target->close();
  auto const file = read_back(path);
  this->expect_order(file);
  std::uint32_t const nodes = this->allocator(file, "nodes");
  for (std::ptrdiff_t i = 0; i < std::ssize(file.events); ++i) {
    event const& each = file.events[static_cast<std::size_t>(i)];
    if (each.kind == event_kind::phase || each.allocator != nodes) continue;
    ++lanes_events;
    auto const& thread = file.names.threads.name(each.thread);
    EXPECT_EQ(thread.rfind(heap.backend_kind() == backend::cuda ? "SM " : "warps ", 0), 0u);
    if (each.call_site != 0) {
      EXPECT_EQ(file.names.call_sites.name(each.call_site), "insert_nodes");
      EXPECT_GT(i, this->phase(file, "insert"));
      EXPECT_LT(i, this->phase(file, "inserted"));
    } else {
      EXPECT_EQ(each.kind, event_kind::deallocate);
      EXPECT_GT(i, this->phase(file, "erase"));
    }
  }
  EXPECT_EQ(lanes_events, 128u * 6);

  // The trace replays: all allocators in one pool, and the heap's allocations alone.
  auto const expect_replay = [](std::vector<event> const& events, std::uint64_t max_live) {
    trace::replayer pool_of_trace{{}};
    pool_of_trace.add(events);
    trace::replay_result const result = pool_of_trace.result();
    EXPECT_TRUE(result.fits());
    EXPECT_EQ(result.unknown_frees + result.repeated_addresses, 0u);
    EXPECT_EQ(result.max_live, max_live);
  };
  expect_replay(file.events, 129);
  std::vector<event> of_nodes;
  std::copy_if(file.events.begin(), file.events.end(), std::back_inserter(of_nodes),
               [&](event const& each) { return each.allocator == nodes; });
  expect_replay(of_nodes, 128);
  EXPECT_EQ(heap.stats().allocations_in_use, 0u);
}

TYPED_TEST(HeapTrace, TwoHeapsAndThreadsOfTheHostShareATrace) {
  for (auto const seed : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    temporary_path const path;
    auto const target = std::make_shared<recorder>(path);
    auto first = this->make_heap(), second = this->make_heap();
    {
      heap_trace a{typename TestFixture::launcher{}, first, target, "a"};
      heap_trace b{typename TestFixture::launcher{}, second, target, "b"};
      std::thread host{[&] {
        trace::recorded_resource<pool<host_resource>> used{
            target, "host", trace::recorded_role::allocator, std::in_place, host_resource{}};
        for (int i = 0; i < 3000; ++i) used.deallocate(used.allocate(64, 16), 64, 16);
      }};
      for (int i = 0; i < 4; ++i) {
        backend.run({2, 32}, use_both{a.ref(), b.ref()});
        a.drain();
        if (i % 2 == 0) b.drain();  // b's events of two kernels come together
      }
      host.join();
      EXPECT_EQ(a.lost() + a.late() + b.lost() + b.late(), 0u);
    }
    EXPECT_EQ(target->lost(), 0u);
    target->close();
    auto const file = read_back(path);
    this->expect_order(file);
    std::map<std::string, std::size_t> counts;
    for (event const& each : file.events) ++counts[file.names.allocators.name(each.allocator)];
    EXPECT_EQ(counts["a"], 4 * 64 * 4 / 2);
    EXPECT_EQ(counts["b"], counts["a"]);
    EXPECT_EQ(counts["host"], 6000u);
  }
}

TYPED_TEST(HeapTrace, EventsThatFindTheBufferFullAreCountedAndTheNextDrainIsRight) {
  TypeParam const backend{1};
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  auto heap = this->make_heap();
  heap_trace kernels{typename TestFixture::launcher{},
                     heap,
                     target,
                     "small",
                     {.buffers = {.buffers = 1, .events_per_buffer = 10}}};
  typename TypeParam::template array<void*> kept(32);
  backend.run({1, 32}, allocate_some{kernels.ref(), kept.data(), 1});
  kernels.drain();
  EXPECT_EQ(kernels.lost(), 22u);
  backend.run({1, 1}, free_kept{kernels.ref(), kept.data()});
  kernels.drain();
  EXPECT_EQ(kernels.lost(), 22u);
  target->close();
  auto const file = read_back(path);
  ASSERT_EQ(file.events.size(), 11u);
  EXPECT_EQ(file.events.back().kind, event_kind::deallocate);
  EXPECT_EQ(file.events.back().address, reinterpret_cast<std::uint64_t>(kept[0]));
}

TYPED_TEST(HeapTrace, AFlushBeforeTheDrainMakesEventsLateAndKeepsTheirOrder) {
  TypeParam const backend{1};
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  auto heap = this->make_heap();
  heap_trace kernels{typename TestFixture::launcher{}, heap, target, "nodes"};
  typename TypeParam::template array<void*> kept(64);
  target->phase("begin");
  backend.run({2, 32}, allocate_some{kernels.ref(), kept.data(), 4});
  this->pause();
  target->phase("end");
  target->flush();  // writes the host's events, so the kernel's events can only follow
  kernels.drain();
  EXPECT_EQ(kernels.late(), 64u * 7);
  target->close();
  auto const file = read_back(path);
  ASSERT_EQ(file.events.size(), 2 + 64u * 7);
  EXPECT_EQ(this->phase(file, "end"), 1);
  EXPECT_EQ(file.events.back().time, file.events[1].time);
  this->expect_order(file);
}

TYPED_TEST(HeapTrace, HoldsBackAsManyEventsOfTheHostAsItSays) {
  for (bool const is_enough : {false, true}) {
    TypeParam const backend{1};
    temporary_path const path;
    auto const target = std::make_shared<recorder>(path);
    auto heap = this->make_heap();
    heap_trace kernels{typename TestFixture::launcher{},
                       heap,
                       target,
                       "nodes",
                       {.held_events = is_enough ? 10'000u : 1u}};
    typename TypeParam::template array<void*> kept(64);
    backend.run({2, 32}, allocate_some{kernels.ref(), kept.data(), 1});
    this->pause();
    for (std::uint64_t i = 0; i < 9000; ++i) target->record(numbered(i));
    kernels.drain();
    EXPECT_EQ(kernels.late(), is_enough ? 0u : 64u);
    target->close();
    auto const file = read_back(path);
    ASSERT_EQ(file.events.size(), 9064u);
    this->expect_order(file);
    std::uint32_t const nodes = this->allocator(file, "nodes");
    EXPECT_EQ(file.events.front().allocator == nodes, is_enough);
  }
}

TYPED_TEST(HeapTrace, ARingKeepsTheLastEventsOfBothSides) {
  TypeParam const backend{1};
  temporary_path const path;
  auto const target = std::make_shared<recorder>(trace::ring_limit{100});
  auto heap = this->make_heap();
  heap_trace kernels{typename TestFixture::launcher{}, heap, target, "nodes"};
  typename TypeParam::template array<void*> kept(64);
  for (std::uint64_t i = 0; i < 5000; ++i) target->record(numbered(i));
  this->pause();
  backend.run({2, 32}, allocate_some{kernels.ref(), kept.data(), 1});
  this->pause();
  for (std::uint64_t i = 0; i < 20; ++i) target->record(numbered(i));
  kernels.drain();
  EXPECT_EQ(kernels.late(), 0u);
  target->save(path);
  auto const file = read_back(path);
  ASSERT_EQ(file.events.size(), 100u);
  std::uint32_t const nodes = this->allocator(file, "nodes");
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(file.events[i].allocator == nodes, i >= 16 && i < 80) << i;
}

TYPED_TEST(HeapTrace, FailuresOfKernelsAreEvents) {
  TypeParam const backend{1};
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  auto heap = this->make_heap();
  {
    heap_trace kernels{typename TestFixture::launcher{}, heap, target, "nodes"};
    backend.run({1, 2}, ask_for_too_much{kernels.ref()});
  }
  target->close();
  auto const file = read_back(path);
  ASSERT_EQ(file.events.size(), 2u);
  EXPECT_EQ(file.events[0].kind, event_kind::fail);
  EXPECT_EQ(file.events[0].size, bytes{1} << 40);
}

TYPED_TEST(HeapTrace, RefusesANullRecorderAndBuffersThatCannotBe) {
  auto heap = this->make_heap();
  typename TestFixture::launcher const launch{};
  using trace_of_kernels = heap_trace<typename TestFixture::launcher>;
  EXPECT_THROW((trace_of_kernels{launch, heap, nullptr, "nodes"}), bad_argument);
  auto const target = std::make_shared<recorder>(trace::ring_limit{10});
  EXPECT_THROW((trace_of_kernels{launch, heap, target, "nodes", {.buffers = {.buffers = 0}}}),
               bad_argument);
}

}  // namespace heap_trace_test
}  // namespace quarry
