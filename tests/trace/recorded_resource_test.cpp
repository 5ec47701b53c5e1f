// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/recorded_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/immediate_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"
#include "trace/recorded_file.hpp"

#include <memory>
#include <random>
#include <thread>

namespace quarry::test {

using namespace trace;
namespace recorded_resource_test {

recorded_resource<host_resource> make() {
  static auto const target = std::make_shared<recorder>(ring_limit{100});
  return {host_resource{}, target, "host"};
}
recorded_resource<host_resource> make_off() { return {host_resource{}, nullptr, "host"}; }
using all =
    testing::Types<alone<&make, true>, alone<&make_off, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("RecordedResource", all{});

std::uint64_t address_of(void const* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// The kind, address, size and granted size of an event.
using facts = std::tuple<event_kind, std::uint64_t, bytes, bytes>;
std::vector<facts> facts_of(std::vector<event> const& events) {
  std::vector<facts> result;
  for (event const& each : events)
    result.emplace_back(each.kind, each.address, each.size, each.granted);
  return result;
}

TEST(RecordedResource, RecordsTheCallsOfTwoResourcesInOneTrace) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  recorded_resource first{host_resource{}, target, "first"};
  recorded_resource second{host_resource{}, target, "second"};
  void* const a = first.allocate(100, 16);
  void* const b = second.allocate(200, 64);
  first.deallocate(nullptr, 100, 16);
  first.deallocate(a, 100, 16);
  second.deallocate(b, 200, 64);
  target->close();
  auto const [events, names] = read_back(path);
  std::vector<facts> const expected{{event_kind::allocate, address_of(a), 100, 0},
                                    {event_kind::allocate, address_of(b), 200, 0},
                                    {event_kind::deallocate, address_of(a), 100, 0},
                                    {event_kind::deallocate, address_of(b), 200, 0}};
  EXPECT_EQ(facts_of(events), expected);
  EXPECT_EQ(names.allocators.name(events.at(2).allocator), "first");
  EXPECT_EQ(names.allocators.name(events.at(3).allocator), "second");
}

TEST(RecordedResource, RecordsFailuresAndRethrowsThem) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  using small_pool = pool<simulated_resource>;
  recorded_resource<small_pool> source{target,
                                       "pool",
                                       recorded_role::allocator,
                                       std::in_place,
                                       simulated_resource{1 << 20},
                                       pool_options{.first_block = 1 << 16, .max_bytes = 1 << 16}};
  void* const pointer = source.allocate(1000, 16);
  auto const counts = source.upstream().counts();
  EXPECT_THROW((void)source.allocate(1 << 17, 16), out_of_memory);
  source.deallocate(pointer, 1000, 16);
  target->close();
  auto const events = read_back(path).events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].granted, counts.granted);
  EXPECT_EQ(events[1].kind, event_kind::fail);
  EXPECT_EQ(events[1].size, bytes{1} << 17);
  EXPECT_EQ(events[1].granted, counts.reserved - counts.granted);
}

TEST(RecordedResource, RecordsTheBlocksOfAPoolInTheSameTrace) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  using upstream = recorded_resource<host_resource>;
  {
    recorded_resource<pool<upstream>> source{
        target,
        "pool",
        recorded_role::allocator,
        std::in_place,
        upstream{host_resource{}, target, "pool", recorded_role::upstream},
        pool_options{.first_block = 1 << 16}};
    source.deallocate(source.allocate(5000, 16), 5000, 16);
  }
  target->close();
  auto const [events, names] = read_back(path);
  std::vector<event_kind> kinds;
  for (event const& each : events) kinds.push_back(each.kind);
  EXPECT_EQ(kinds, (std::vector{event_kind::reserve, event_kind::allocate, event_kind::deallocate,
                                event_kind::unreserve}));
  for (event const& each : events) EXPECT_EQ(names.allocators.name(each.allocator), "pool");
  EXPECT_EQ(events.at(0).size, bytes{1} << 16);
  EXPECT_EQ(events.at(0).address, events.at(3).address);
}

TEST(RecordedResource, RecordsTheGrantedSizesOfSlicesAndChunks) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  recorded_resource<pool<host_resource>> source{
      target,        "pool",          recorded_role::allocator,
      std::in_place, host_resource{}, pool_options{.first_block = 32_MiB}};
  EXPECT_FALSE(source.upstream().sizes_of(nullptr));
  std::vector<std::pair<void*, bytes>> allocated;
  for (bytes const size : {1, 10, 100, 1000, 5000, 100'000}) {
    for (int i = 0; i < 3; ++i) allocated.emplace_back(source.allocate(size, 16), size);
  }
  for (auto const& [pointer, size] : allocated) source.deallocate(pointer, size, 16);
  EXPECT_FALSE(source.upstream().sizes_of(allocated[0].first));
  target->close();
  for (event const& each : read_back(path).events) {
    if (each.kind != event_kind::allocate) continue;
    EXPECT_GE(each.granted, each.size);
    EXPECT_LE(each.granted, each.size + each.size / 4 + 300);
  }
}

TEST(RecordedResource, RecordsTheStreamsOfAStreamPool) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  recorded_resource<stream_source> source{target, "pool", recorded_role::allocator, std::in_place};
  void* const first = source.allocate(100, 256, stream_number(0x10));
  void* const second = source.allocate(200, 256, stream_number(0x20));
  void* const third = source.allocate_sync(300, 256);
  source.deallocate(first, 100, 256, stream_number(0x20));
  source.deallocate(second, 200, 256, stream_number(0x20));
  source.deallocate_sync(third, 300, 256);
  target->close();
  auto const [events, names] = read_back(path);
  std::vector<std::string> streams;
  for (event const& each : events) streams.push_back(names.streams.name(each.stream));
  EXPECT_EQ(streams, (std::vector<std::string>{"0x10", "0x20", "", "0x20", "0x20", ""}));
}

TEST(RecordedResource, RecordsNothingWithoutARecorder) {
  recorded_resource source{host_resource{}, nullptr, "host"};
  EXPECT_EQ(source.target(), nullptr);
  void* const pointer = source.allocate(100, 16);
  EXPECT_NE(pointer, nullptr);
  source.deallocate(pointer, 100, 16);
}

TEST(RecordedResource, ReturnsWhetherItsPoolHasFreed) {
  recorded_resource<pool<host_resource>> source{nullptr, "pool", recorded_role::allocator,
                                                std::in_place, host_resource{}};
  void* const pointer = source.allocate(100, 16);
  EXPECT_TRUE(source.deallocate(pointer, 100, 16));
  EXPECT_FALSE(source.deallocate(pointer, 100, 16));
}

/// Random threads over a shared pool, recorded outside of its lock and inside.
template <class Source>
void run_random_threads(Source& source, unsigned seed) {
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::minstd_rand random{seed * 10 + number};
      std::vector<std::pair<void*, bytes>> allocated;
      for (int i = 0; i < 5000; ++i) {
        if (random() % 2 == 0 && !allocated.empty()) {
          std::swap(allocated[random() % allocated.size()], allocated.back());
          source.deallocate(allocated.back().first, allocated.back().second, 16);
          allocated.pop_back();
        } else {
          bytes const size = 1 + random() % 300;
          allocated.emplace_back(source.allocate(size, 16), size);
        }
      }
      for (auto const& [pointer, size] : allocated) source.deallocate(pointer, size, 16);
    });
  }
  for (auto& each : threads) each.join();
}
TEST(RecordedResource, ShowsNoAddressLiveTwice) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    temporary_path const path;
    auto const target = std::make_shared<recorder>(path);
    recorded_resource<synchronized_resource<pool<host_resource>>> outside{
        target, "outside", recorded_role::allocator, std::in_place, host_resource{}};
    run_random_threads(outside, seed);
    target->close();
    auto const events = read_back(path).events;
    EXPECT_EQ(target->lost(), 0u);
    expect_replayable(events);
  }
}
TEST(RecordedResource, ShowsNoAddressLiveTwiceInsideALock) {
  temporary_path const path;
  auto const target = std::make_shared<recorder>(path);
  synchronized_resource<recorded_resource<pool<host_resource>>> inside{
      target, "inside", recorded_role::allocator, std::in_place, host_resource{}};
  run_random_threads(inside, 1);
  target->close();
  auto const events = read_back(path).events;
  expect_replayable(events);
  for (event const& each : events) {
    if (each.kind == event_kind::allocate) {
      EXPECT_GE(each.granted, each.size);
    }
  }
}

}  // namespace recorded_resource_test
}  // namespace quarry::test
