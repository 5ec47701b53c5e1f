// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/select_allocator.hpp"

#include "quarry/trace/replay.hpp"
#include "trace/pickle_writer.hpp"
#include "trace/trace_files.hpp"

#include <algorithm>

namespace quarry::test {
namespace {

using pickles::action;
using trace::event;
using trace::event_kind;

/// Both devices use the same addresses.
std::string two_devices() {
  std::vector<pickles::value> const second{action("alloc", 8192, 700, 3),
                                           action("free_requested", 8192, 700, 5)};
  return pickles::snapshot({{action("alloc", 4096, 100, 1), action("alloc", 8192, 50, 2),
                             action("free_requested", 4096, 100, 4), action("unknown", 0, 0, 4)},
                            second});
}

std::unique_ptr<trace::reader> opened(temporary_file const& file, std::string allocator) {
  return trace::select_allocator(trace::open_trace(file.path()), std::move(allocator), "a.json");
}

std::vector<event> events_of(trace::reader& source, std::size_t batch = 2) {
  std::vector<event> result, events(batch);
  while (std::size_t const count = source.read(events))
    result.insert(result.end(), events.begin(),
                  events.begin() + static_cast<std::ptrdiff_t>(count));
  return result;
}

TEST(SelectAllocator, ReplaysEachDeviceInAPoolOfItsOwn) {
  temporary_file const file{two_devices()};
  auto const peak = [&](char const* allocator) {
    auto const source = opened(file, allocator);
    auto const found = replay(*source, {});
    EXPECT_EQ(found.unknown_frees + found.repeated_addresses, 0u);
    return found.pool.peak_allocated;
  };
  EXPECT_EQ(peak("device 0"), 150u);
  EXPECT_EQ(peak("device 1"), 700u);
  EXPECT_EQ(peak("all"), 850u) << "device 1 uses an address that device 0 uses, too";
}

TEST(SelectAllocator, KeepsNamesProblemsAndFormat) {
  temporary_file const file{two_devices()};
  auto const all = opened(file, "all");
  auto const one = opened(file, "device 1");
  (void)events_of(*all);
  EXPECT_EQ(events_of(*one).size(), 2u);
  EXPECT_EQ(one->names().allocators.names(), all->names().allocators.names());
  EXPECT_EQ(one->names().call_sites.names(), all->names().call_sites.names());
  EXPECT_EQ(one->problems(), all->problems());
  EXPECT_EQ(one->problem_count(), 1u);
  EXPECT_EQ(one->file_format(), trace::format::pytorch);
}

TEST(SelectAllocator, RefusesSeveralDevicesAndUnknownNames) {
  temporary_file const file{two_devices()};
  auto const refusal = [&](char const* allocator) {
    return message_of([&] { (void)events_of(*opened(file, allocator)); });
  };
  EXPECT_EQ(refusal(""),
            "a.json has several devices. Its allocators: device 0, device 1. Choose one of "
            "them, or 'all' for one pool that serves all");
  EXPECT_EQ(refusal("device 2"),
            "a.json has no allocator 'device 2'. Its allocators: device 0, device 1. Choose one "
            "of them, or 'all' for one pool that serves all");
  EXPECT_EQ(refusal("device 1"), "");
  temporary_file const unnamed{"a 1 4096\nf 1\n"};
  EXPECT_EQ(message_of([&] { (void)events_of(*opened(unnamed, "device 1")); }),
            "a.json has no allocator 'device 1': it names no allocators. Select none, to use "
            "all events");
  temporary_file const single{pickles::snapshot({{action("alloc", 4096, 100, 1)}})};
  EXPECT_EQ(events_of(*opened(single, "")).size(), 1u);
}

/// Hands out events of allocators 0 to 3, and of each kind.
class random_reader final : public trace::reader {
 public:
  explicit random_reader(std::vector<event> const& events,
                         std::vector<char const*> const& names = {"HOST", "DEVICE", "UM"})
      : events_{events} {
    for (char const* const name : names) (void)names_.allocators.add(name);
  }
  std::size_t read(std::span<event> target) override {
    std::size_t const count = std::min(target.size(), events_.size() - next_);
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(next_), count, target.begin());
    next_ += count;
    return count;
  }
  trace::format file_format() const override { return trace::format::umpire; }

 private:
  std::vector<event> const& events_;
  std::size_t next_ = 0;
};

TEST(SelectAllocator, TellsAnAllocatorWithoutEventsFromAnUnknownOne) {
  std::vector<event> const one{{.address = 64, .size = 8, .allocator = 2}};
  auto const refusal = [&](char const* allocator) {
    auto const selected =
        trace::select_allocator(std::make_unique<random_reader>(one), allocator, "a.stats");
    return message_of([&] { (void)events_of(*selected); });
  };
  EXPECT_EQ(refusal("HOST"),
            "a.stats names the allocator 'HOST', but has no events of it. What a pool allocates "
            "belongs to the pool, and not to the resource below it. Its allocators: DEVICE. Choose "
            "one of them, or 'all' for one pool that serves all");
  EXPECT_EQ(refusal("FILE"),
            "a.stats has no allocator 'FILE'. Its allocators: DEVICE. Choose one of them, or 'all' "
            "for one pool that serves all");
}

TEST(SelectAllocator, AllDevicesInOneMemoryEqualTheSumOfTheirReplays) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  std::vector<event> all(3000);
  for (event& each : all) {
    each.kind = random() % 2 == 0 ? event_kind::allocate : event_kind::deallocate;
    each.allocator = static_cast<std::uint32_t>(random() % 5);
    each.address = random() % 20 * 4096;
    each.size = random() % 1000;
    // the first substitutes of addresses
    if (random() % 10 == 0) each.address = ~(random() % 20 * 4096) + 1;
  }
  std::uint64_t unknown = 0, repeated = 0, in_use = 0;
  bytes allocated = 0;
  for (std::vector<std::uint32_t> const& device :
       std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {3}, {4}}) {
    trace::replayer memory{{.placement = trace::strategy::direct}};
    for (event const& each : all)
      if (std::ranges::count(device, each.allocator) != 0) memory.add({&each, 1});
    auto const found = memory.result();
    unknown += found.unknown_frees;
    repeated += found.repeated_addresses;
    in_use += found.pool.allocations_in_use;
    allocated += found.pool.allocated;
  }
  auto source = std::make_unique<random_reader>(
      all, std::vector<char const*>{"HOST", "device 0, pool (0, 1)", "device 1", "device 2"});
  auto const joined = trace::select_allocator(std::move(source), trace::all_allocators);
  auto const found = replay(*joined, {.placement = trace::strategy::direct});
  EXPECT_EQ(found.unknown_frees, unknown);
  EXPECT_EQ(found.repeated_addresses, repeated);
  EXPECT_EQ(found.pool.allocations_in_use, in_use);
  EXPECT_EQ(found.pool.allocated, allocated);
}

TEST(SelectAllocator, PassesTheEventsThatAFilterPasses) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  std::vector<event> all(2000);
  for (event& each : all) {
    each.kind = static_cast<event_kind>(random() % trace::event_kinds);
    each.allocator = static_cast<std::uint32_t>(random() % 4);
    each.address = random();
  }
  std::vector<event> wanted;
  std::copy_if(all.begin(), all.end(), std::back_inserter(wanted), [](event const& each) {
    return each.allocator == 2 || each.kind == event_kind::wait || each.kind == event_kind::phase;
  });
  for (std::size_t const batch : {1u, 7u, 5000u}) {
    auto const selected = trace::select_allocator(std::make_unique<random_reader>(all), "DEVICE");
    EXPECT_EQ(events_of(*selected, batch), wanted);
    auto const unselected = trace::select_allocator(std::make_unique<random_reader>(all), "");
    EXPECT_EQ(events_of(*unselected, batch), all) << "only devices are refused";
  }
}

}  // namespace
}  // namespace quarry::test
