// SPDX-License-Identifier: Apache-2.0
#include "trace/pytorch_snapshot.hpp"

#include "trace/pickle_writer.hpp"
#include "trace/trace_files.hpp"

#include "quarry/trace/replay.hpp"

namespace quarry::test {
namespace {

using pickles::action;
using pickles::dict;
using pickles::snapshot;
using trace::event;
using trace::event_kind;

/// What a Python program counted in the files with `pickle` (device_traces and segments).
struct known_snapshot {
  char const* name;
  std::size_t allocations, frees, segments, initial_allocations;
  bytes peak_allocated, peak_reserved;
  std::uint64_t max_live;
  std::size_t call_sites;  // of the history, and of blocks that the history did not allocate
  std::uint64_t first_us;
};
constexpr known_snapshot known_snapshots[] = {
    {"gpt", 18101, 18098, 81, 0, 4333361976, 5209325568, 511, 20, 1795288592821738},
    {"resnet", 8519, 8516, 103, 3, 2586660512, 3311403008, 702, 48, 1795288602707743},
    {"kvcache", 57663, 57660, 82, 3, 320538640, 740294656, 299, 4, 1795288604029423},
    {"gnn", 4906, 4903, 9, 3, 261257524, 587202560, 32, 12, 1795288623555638}};

TEST(PytorchSnapshot, HasTheEventsThatPythonFindsInRealSnapshots) {
  for (known_snapshot const& known : known_snapshots) {
    SCOPED_TRACE(known.name);
    auto const found = read_all(std::string{QUARRY_DATA "/"} + known.name + ".pickle.gz", 4096);
    EXPECT_TRUE(found.problems.empty());
    EXPECT_EQ(found.count(event_kind::allocate), known.allocations);
    EXPECT_EQ(found.count(event_kind::deallocate), known.frees);
    EXPECT_EQ(found.count(event_kind::reserve), known.segments);
    EXPECT_EQ(found.events.size(), known.allocations + known.frees + known.segments);
    EXPECT_EQ(found.events[0].time, known.first_us * 1000);
    EXPECT_EQ(found.names.allocators.names(), (std::vector<std::string>{"", "device 0"}));
    EXPECT_EQ(found.names.streams.size(), 1u);
    bool const has_initial = known.initial_allocations != 0;
    EXPECT_EQ(found.names.call_sites.size(), 1 + known.call_sites + (has_initial ? 1 : 0));
    if (has_initial) {
      auto const site = found.names.call_sites.name(found.events[0].call_site);
      EXPECT_EQ(site, "in use before the recording began");
    }
    trace::replayer memory{{}};
    memory.add(found.events);
    auto const result = memory.result();
    EXPECT_EQ(result.pool.peak_allocated, known.peak_allocated);
    EXPECT_EQ(result.recorded_peak_reserved, known.peak_reserved);
    EXPECT_EQ(result.max_live, known.max_live);
    EXPECT_EQ(result.unknown_frees + result.repeated_addresses + result.failures, 0u);
  }
}

pickles::value frames_of(char const* file, int line) {
  return std::vector<pickles::value>{dict({{"name", "f"}, {"filename", file}, {"line", line}})};
}

/// The events of a snapshot that is read without problems.
std::vector<event> snapshot_events(std::string const& bytes, read_trace& found) {
  temporary_file const file{bytes};
  found = read_all(file.path(), 3);
  EXPECT_TRUE(found.problems.empty()) << found.problems[0];
  return found.events;
}
std::vector<event> snapshot_events(std::string const& bytes) {
  read_trace found;
  return snapshot_events(bytes, found);
}

TEST(PytorchSnapshot, ConvertsEachAction) {
  auto const frame = dict({{"name", "f"}, {"filename", "a.py"}, {"line", 3}});
  auto const caller = dict({{"name", "g"}, {"filename", "b.py"}, {"line", 4}});
  std::vector<pickles::value> const frames{frame, caller};
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("segment_alloc", 4096, 2048, 1),
                 action("alloc", 4096, 100, 2, {{"frames", frames}}),
                 action("free_requested", 4096, 100, 3),
                 action("free_completed", 4096, 100, 4, {{"stream", 0x10}}),
                 dict({{"action", "oom"}, {"size", 900}, {"device_free", 70}, {"time_us", 5}}),
                 dict({{"action", "user_defined"}, {"user_metadata", "step 1"}, {"time_us", 6}}),
                 dict({{"action", "snapshot"}, {"time_us", 7}}),
                 action("segment_free", 4096, 2048, 8)}}),
      found);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0], (event{.time = 1000,
                              .address = 4096,
                              .size = 2048,
                              .allocator = 1,
                              .kind = event_kind::reserve}));
  EXPECT_EQ(events[1], (event{.time = 2000,
                              .address = 4096,
                              .size = 100,
                              .allocator = 1,
                              .call_site = events[1].call_site}));
  EXPECT_EQ(found.names.call_sites.name(events[1].call_site), "a.py:3 f < b.py:4 g");
  EXPECT_EQ(events[2], (event{.time = 4000,
                              .address = 4096,
                              .size = 100,
                              .stream = 1,
                              .allocator = 1,
                              .kind = event_kind::deallocate}));
  EXPECT_EQ(found.names.streams.name(1), "0x10");
  EXPECT_EQ(
      events[3],
      (event{.time = 5000, .size = 900, .granted = 70, .allocator = 1, .kind = event_kind::fail}));
  EXPECT_EQ(events[4].kind, event_kind::phase);
  EXPECT_EQ(found.names.call_sites.name(events[4].call_site), "step 1");
  EXPECT_EQ(events[5].kind, event_kind::unreserve);
}

TEST(PytorchSnapshot, ADeepStackIsWholeAndAHugeOneSaysWhatItLeavesOut) {
  auto const site_of_stack = [](int depth) {
    std::vector<pickles::value> frames;
    for (int i = 0; i < depth; ++i)
      frames.push_back(dict({{"name", "f"}, {"filename", "module.py"}, {"line", i}}));
    read_trace found;
    auto const events =
        snapshot_events(snapshot({{action("alloc", 4096, 100, 2, {{"frames", frames}})}}), found);
    return found.names.call_sites.name(events.at(0).call_site);
  };
  std::string const deep = site_of_stack(100);
  EXPECT_TRUE(deep.starts_with("module.py:0 f < module.py:1 f < "));
  EXPECT_TRUE(deep.ends_with(" < module.py:99 f"));
  std::string const huge = site_of_stack(5000);
  EXPECT_LT(huge.size(), 16'500u);
  EXPECT_TRUE(huge.ends_with(" more frames")) << huge.substr(huge.size() - 40);
}

TEST(PytorchSnapshot, WhatARingLostHasTheStacksOfTheBlocks) {
  auto const block = [](std::int64_t address, pickles::entries more) {
    more.insert(more.end(), {{"address", address},
                             {"requested_size", 30},
                             {"size", 512},
                             {"state", "active_allocated"}});
    return dict(more);
  };
  std::vector<pickles::value> const history{dict({{"frames", frames_of("old.py", 3)}}),
                                            dict({{"frames", frames_of("older.py", 4)}})};
  std::vector<pickles::value> const blocks{
      block(8192, {{"frames", frames_of("block.py", 2)}}), block(8704, {{"history", history}}),
      block(9216, {}), block(9728, {{"frames", frames_of("not the history's.py", 6)}})};
  auto const segment = dict({{"device", 0},
                             {"address", 8192},
                             {"total_size", 2048},
                             {"frames", frames_of("segment.py", 1)},
                             {"blocks", blocks}});
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("alloc", 9728, 30, 60, {{"frames", frames_of("history.py", 5)}}),
                 action("free_requested", 4096, 10, 70)}},
               {segment}),
      found);
  std::vector<std::string> sites;
  for (event const& each : events)
    if (each.kind != event_kind::deallocate)
      sites.push_back(found.names.call_sites.name(each.call_site));
  std::string const unknown = "in use before the recording began";
  EXPECT_EQ(sites, (std::vector<std::string>{"segment.py:1 f", unknown, "block.py:2 f",
                                             "old.py:3 f", unknown, "history.py:5 f"}));
  EXPECT_EQ(found.names.call_sites.size(), 6u);
}

TEST(PytorchSnapshot, BeginsWithWhatTheHistoryFreesOrTheSnapshotHas) {
  auto const block = [](std::int64_t address, std::int64_t size, char const* state) {
    return dict({{"address", address}, {"requested_size", size}, {"state", state}});
  };
  std::vector<pickles::value> const blocks{
      block(8192, 30, "active_allocated"), block(8704, 9, "inactive"),
      block(9216, 40, "active_allocated"), block(0, 1, "active_allocated")};
  auto const segment = dict(
      {{"device", 0}, {"address", 8192}, {"total_size", 2048}, {"stream", 7}, {"blocks", blocks}});
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("free_requested", 4096, 10, 50), action("alloc", 9216, 40, 60),
                 action("segment_free", 4096, 512, 70)}},
               {segment}),
      found);
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0].kind, event_kind::reserve);
  EXPECT_EQ(events[0].address, 4096u);
  EXPECT_EQ(events[1].kind, event_kind::reserve);
  EXPECT_EQ(events[1].address, 8192u);
  EXPECT_EQ(events[1].size, 2048u);
  EXPECT_EQ(events[2].kind, event_kind::allocate);
  EXPECT_EQ(events[2].address, 4096u);
  EXPECT_EQ(events[3].address, 8192u);
  EXPECT_EQ(events[3].size, 30u);
  EXPECT_EQ(found.names.streams.name(events[3].stream), "0x7");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i].time, 50'000u) << "the first event of the history";
    EXPECT_EQ(found.names.call_sites.name(events[i].call_site),
              "in use before the recording began");
  }
}

/// With `record_stream`, a block waits for the work of other streams after its free.
TEST(PytorchSnapshot, AnAllocationIsInUseUntilItsFreeIsComplete) {
  auto const frame = [](char const* file) {
    return std::vector<pickles::value>{
        dict({{"name", "f"}, {"filename", file}, {"line", 3}}),
    };
  };
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("alloc", 4096, 30, 2),
                 action("free_requested", 4096, 30, 3, {{"frames", frame("drop.py")}}),
                 action("alloc", 8192, 30, 4),
                 action("free_completed", 4096, 30, 5, {{"frames", frame("other.py")}}),
                 action("free_requested", 8192, 30, 6)}}),
      found);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, event_kind::allocate);
  EXPECT_EQ(events[2].kind, event_kind::deallocate);
  EXPECT_EQ(events[2].time, 5000u);
  EXPECT_EQ(found.names.call_sites.name(events[2].call_site), "drop.py:3 f");
  trace::replayer memory{{}};
  memory.add(events);
  EXPECT_EQ(memory.result().pool.peak_allocated, 60u);
  EXPECT_EQ(memory.result().pool.allocations_in_use, 1u) << "its free is not complete";
}

TEST(PytorchSnapshot, AFreeThatIsIncompleteAtTheEndOrWasRequestedBeforeTheBeginning) {
  auto const block = [](std::int64_t address, std::int64_t size, char const* state) {
    return dict({{"address", address}, {"size", size}, {"requested_size", size}, {"state", state}});
  };
  auto const segment =
      dict({{"device", 0},
            {"address", 4096},
            {"total_size", 1024},
            {"allocated_size", 256},
            {"blocks", std::vector<pickles::value>{block(4096, 512, "active_awaiting_free"),
                                                   block(4608, 256, "active_pending_free"),
                                                   block(4864, 256, "active_allocated")}}});
  auto const events = snapshot_events(
      snapshot({{action("free_completed", 9216, 99, 1), action("free_requested", 4096, 512, 2)}},
               {segment}));
  trace::replayer memory{{}};
  memory.add(events);
  auto const result = memory.result();
  EXPECT_EQ(result.pool.peak_allocated, 99u + 1024);
  EXPECT_EQ(result.pool.allocated, 1024u);
  EXPECT_EQ(result.unknown_frees + result.repeated_addresses, 0u);
}

/// Scripts make such histories.
TEST(PytorchSnapshot, WithoutCompletedFreesARequestFrees) {
  auto const events = snapshot_events(
      snapshot({{action("alloc", 4096, 30, 2), action("free_requested", 4096, 30, 3),
                 action("alloc", 4096, 40, 4)},
                {action("alloc", 4096, 50, 2), action("free_requested", 4096, 50, 3),
                 action("free_completed", 4096, 50, 4)}}));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[2].kind, event_kind::deallocate);
  EXPECT_EQ(events[2].time, 3000u);
  EXPECT_EQ(events[4].kind, event_kind::deallocate);
  EXPECT_EQ(events[4].time, 4000u) << "device 1 has completed frees";
}

TEST(PytorchSnapshot, DevicesMayUseEqualAddresses) {
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("alloc", 4096, 10, 50)}, {action("free_requested", 4096, 20, 60)}}), found);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, event_kind::allocate) << "what device 1 frees";
  EXPECT_EQ(events[0].size, 20u);
  EXPECT_EQ(found.names.allocators.name(events[0].allocator), "device 1");
}

TEST(PytorchSnapshot, MergesTheHistoriesOfDevicesByTime) {
  read_trace found;
  auto const events = snapshot_events(
      snapshot({{action("alloc", 512, 100, 1), action("free_requested", 512, 100, 4),
                 action("alloc", 1024, 1, 3), action("alloc", 1536, 1, 8)},
                {},
                {action("alloc", 512, 7, 2), action("alloc", 2048, 7, 4),
                 action("free_requested", 512, 7, 5)}}),
      found);
  std::vector<std::string> lines;
  for (event const& each : events)
    lines.push_back(found.names.allocators.name(each.allocator).substr(7) + ": " +
                    std::to_string(each.time / 1000));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"0: 1", "2: 2", "0: 4", "0: 3", "2: 4", "2: 5", "0: 8"}))
      << "a device keeps its order even if its clock goes back";
}

/// Expandable segments map pages one by one, and unmap several at once.
TEST(PytorchSnapshot, CountsExpandableSegmentsByTheirPages) {
  auto const events = snapshot_events(
      snapshot({{action("segment_map", 0x1000, 0x1000, 1), action("segment_map", 0x2000, 0x1000, 2),
                 action("segment_unmap", 0x1800, 0x1000, 3),
                 action("segment_map", 0x1800, 0x800, 4), action("alloc", 0x1000, 512, 5)}},
               {dict({{"address", 0x1000}, {"total_size", 0x1000}}),
                dict({{"address", 0x2800}, {"total_size", 0x800}})}));
  EXPECT_EQ(events.size(), 5u) << "no segment was in use before";
  trace::replayer memory{{}};
  memory.add(events);
  EXPECT_EQ(memory.result().recorded_peak_reserved, 0x2000u);
}

TEST(PytorchSnapshot, HasAnAllocatorForEachDeviceAndItsStreams) {
  read_trace found;
  auto const events =
      snapshot_events(snapshot({{action("alloc", 512, 1, 1)},
                                {},
                                {action("alloc", 1024, 2, 1, {{"stream", 5}}),
                                 action("alloc", 2048, 2, 2, {{"stream", 6}}),
                                 action("free_requested", 1024, 2, 3, {{"stream", 5}})}}),
                      found);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(found.names.allocators.name(events[0].allocator), "device 0");
  EXPECT_EQ(events[0].stream, 0u);
  for (std::size_t i = 1; i < 4; ++i)
    EXPECT_EQ(found.names.allocators.name(events[i].allocator), "device 2");
  EXPECT_EQ(found.names.streams.name(events[1].stream), "0x5");
  EXPECT_EQ(found.names.streams.name(events[2].stream), "0x6");
  EXPECT_EQ(events[3].stream, events[1].stream);
}

TEST(PytorchSnapshot, SkipsWrongEntriesAndNamesThem) {
  temporary_file const file{
      snapshot({{action("alloc", 512, 1, 1), action("defragment", 1, 1, 1), dict({{"addr", 1}}),
                 dict({{"action", "alloc"}, {"addr", 5}}), dict({{"action", "alloc"}, {"size", 5}}),
                 7, action("free_requested", 512, 1, 1), action("alloc", 512, -8, 1),
                 action("alloc", 0, 8, 1)}})};
  auto const found = read_all(file.path());
  EXPECT_EQ(found.events.size(), 2u);
  std::string const entry = file.path() + ", entry ";
  EXPECT_EQ(
      found.problems,
      (std::vector<std::string>{
          entry + "1 of the history: has the unknown action 'defragment'",
          entry + "2 of the history: has no 'action'", entry + "3 of the history: has no 'size'",
          entry + "4 of the history: has no 'addr'", entry + "5 of the history: has no 'action'",
          entry + "7 of the history: has the negative 'size' -8",
          entry + "8 of the history: has bytes and the 'addr' 0"}));
}

TEST(PytorchSnapshot, RefusesOtherPicklesAndExplainsEmptyHistories) {
  temporary_file file{pickles::pickle(dict({{"state_dict", 1}}))};
  EXPECT_EQ(message_of([&] { (void)read_all(file.path()); }),
            file.path() +
                ": the pickle is no snapshot of PyTorch: it has neither 'device_traces' "
                "nor 'segments'");
  file.write(snapshot({{}}));
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events.empty());
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_NE(found.problems[0].find("the snapshot has no history. Call "), std::string::npos);
  auto const reader = trace::open_trace(file.path());
  EXPECT_EQ(reader->read({}), 0u) << "no room is no end";
  EXPECT_EQ(reader->problem_count(), 0u);
}

TEST(PytorchSnapshot, RefusesAPickleThatCallsAFunction) {
  temporary_file const file{"\x80\4cos\nsystem\n\x8c\4true\x85R."};
  EXPECT_EQ(message_of([&] { (void)read_all(file.path()); }),
            file.path() +
                ", offset 2: opcode 0x63 is refused: this reader builds plain containers "
                "only, and no objects of classes");
}

TEST(PytorchSnapshot, KeepsTheEventsBeforeTheEndOfATruncatedFile) {
  std::vector<pickles::value> history;
  for (int i = 1; i <= 50; ++i) history.push_back(action("alloc", i * 512, 1, i));
  // A second history, so that the first one is complete when the file ends
  std::string const bytes = snapshot({history, {action("alloc", 1 << 20, 1, 60)}});
  std::size_t const second = bytes.rfind("](");
  temporary_file file;
  for (std::size_t size = second; size < bytes.size(); size += 7) {
    file.write(bytes.substr(0, size));
    auto const found = read_all(file.path());
    EXPECT_GE(found.events.size(), 50u);
    ASSERT_EQ(found.problems.size(), 1u);
    EXPECT_NE(found.problems[0].find("the file ends inside the pickle"), std::string::npos);
  }
  std::string const packed = compressed(bytes + std::string(2000, 'N'));
  file.write(packed.substr(0, packed.size() - 12));
  auto const found = read_all(file.path());
  EXPECT_GE(found.events.size(), 50u);
}

TEST(PytorchSnapshot, ADamagedCompressedFileIsABadTrace) {
  std::string const whole = [] {
    std::ifstream stream{QUARRY_DATA "/gnn.pickle.gz", std::ios::binary};
    return std::string{std::istreambuf_iterator<char>{stream}, {}};
  }();
  temporary_file const file{whole.substr(0, whole.size() / 2)};
  auto const cut = read_all(file.path(), 5000);
  EXPECT_GT(cut.count(event_kind::allocate), 1500u);
  EXPECT_EQ(cut.problems,
            std::vector<std::string>{file.path() +
                                     ": the compressed data are damaged: the file ends too early"});
  std::string changed = whole;
  for (std::size_t i = 0; i < 64; ++i) changed[whole.size() / 2 + i] = '\xff';
  file.write(changed);
  auto const found = read_all(file.path(), 5000);
  EXPECT_GT(found.count(event_kind::allocate), 1500u);
  EXPECT_EQ(found.problems.size(), 1u);
}

TEST(PytorchSnapshot, KeepsAddressesFrom2To63On) {
  // LONG1 of nine bytes: 0xffff800000000000 and 0xffff800000000200
  std::string bytes = snapshot({{action("alloc", 0x1111, 1, 1), action("alloc", 0x2222, 1, 2)}});
  auto const replace = [&](std::string_view number, std::string_view by) {
    auto const at = bytes.find(number);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, number.size(), by);
  };
  replace({"\x11\x11\0\0\0\0\0\0\0", 9}, {"\0\0\0\0\0\x80\xff\xff\0", 9});
  replace({"\x22\x22\0\0\0\0\0\0\0", 9}, {"\0\2\0\0\0\x80\xff\xff\0", 9});
  auto const events = snapshot_events(bytes);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].address, 0xffff800000000000);
  EXPECT_EQ(events[1].address, 0xffff800000000200);
  // versions with signed addresses
  auto const negative = snapshot_events(snapshot({{action("alloc", -4096, 8, 1)}}));
  ASSERT_EQ(negative.size(), 1u);
  EXPECT_EQ(negative[0].address, 0xfffffffffffff000);
}

TEST(PytorchSnapshot, BytesAfterThePickleAreAProblem) {
  std::string const bytes = snapshot({{action("alloc", 4096, 8, 1)}});
  temporary_file file{bytes + "rest"};
  auto const plain = read_all(file.path());
  EXPECT_EQ(plain.events.size(), 1u);
  EXPECT_EQ(plain.problems,
            std::vector<std::string>{file.path() + ", offset " + std::to_string(bytes.size()) +
                                     ": bytes follow the end of the pickle; they are ignored"});
  file.write(compressed(bytes) + "rest");
  auto const packed = read_all(file.path());
  EXPECT_EQ(packed.events.size(), 1u);
  EXPECT_EQ(packed.problems,
            std::vector<std::string>{
                file.path() +
                ": bytes that are not compressed follow the compressed data, and are ignored"});
}

/// One dict with a million keys, to which a thousand events refer.
TEST(PytorchSnapshot, IsNotSlowedDownByAHugeDictThatManyEventsShare) {
  std::string bytes{"\x80\2}(X\x0d\0\0\0device_traces](](}q\1(", 30};
  for (int i = 0; i < 300'000; ++i) bytes += "NN";
  bytes += 'u';
  for (int i = 0; i < 20'000; ++i) bytes += "h\1";
  bytes += "eeu.";
  temporary_file const file{bytes};
  auto const found = read_all(file.path());
  EXPECT_TRUE(found.events.empty());
  EXPECT_EQ(found.problems.size(), trace::reader::max_problems);
}

}  // namespace
}  // namespace quarry::test
