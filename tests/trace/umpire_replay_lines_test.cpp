// SPDX-License-Identifier: Apache-2.0
// The lines have the members and the order that Umpire's source of 2026 prints them with.
#include "trace/umpire_replay_lines.hpp"

#include "trace/log_files.hpp"
#include "trace/umpire_log.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace umpire_replay_lines_test {

using trace::event;
using trace::event_kind;

whole_trace read(std::string const& text) { return read_all(trace::open_umpire_log, text); }

/// Writes a log with an allocator a1 named HOST, and a pool a2 over it.
struct log_writer {
  std::string text =
      R"({"kind":"umpire_replay","process":{"pid":4142,"rank":0},"schema":"v2","umpire_version":"2026.7.1"})"
      "\n"
      R"({"allocator_id":"a1","args":{"resource_name":"HOST","traits":{"granularity":"unknown","ipc":false,"kind":"unknown","resource":"host","scope":"unknown","size":0,"tracking":true,"unified":false,"used_for":"any","vendor":"unknown"}},"name":"HOST","op":"make_allocator","seq":1,"status":"committed","strategy":"MemoryResource","tracking":true})"
      "\n"
      R"({"allocator_id":"a2","args":{"alignment":16,"heuristic":{"kind":"percent_releasable_hwm","parameter":100},"initial_alloc_size":4096,"min_alloc_size":1024,"parent_allocator":"a1"},"name":"pool","op":"make_allocator","seq":2,"status":"committed","strategy":"QuickPool","tracking":true})"
      "\n";
  int sequence = 2;

  log_writer& line(std::string const& op, int number, std::string const& allocator,
                   std::string const& allocation, std::string const& size, char const* status) {
    text += R"({"allocation_id":")" + allocation + R"(","allocator_id":")" + allocator +
            R"(","op":")" + op + R"(","seq":)" + std::to_string(number) +
            (size.empty() ? "" : R"(,"size":)" + size) + R"(,"status":")" + status + "\"}\n";
    return *this;
  }
  int begin_allocate(std::string const& allocator, std::string const& allocation, int size) {
    line("allocate", ++sequence, allocator, allocation, std::to_string(size), "pending");
    return sequence;
  }
  log_writer& end_allocate(int number, std::string const& allocator, std::string const& allocation,
                           int size) {
    return line("allocate", number, allocator, allocation, std::to_string(size), "committed");
  }
  log_writer& allocate(std::string const& allocator, std::string const& allocation, int size) {
    return end_allocate(begin_allocate(allocator, allocation, size), allocator, allocation, size);
  }
  log_writer& deallocate(std::string const& allocator, std::string const& allocation) {
    line("deallocate", ++sequence, allocator, allocation, "", "pending");
    return line("deallocate", sequence, allocator, allocation, "", "committed");
  }
};

/// Events as text: the kind, the address, the size, the allocator's name.
std::string text_of(whole_trace const& result) {
  constexpr char const* kinds[] = {"a", "d", "fail", "reserve", "unreserve", "wait", "phase"};
  std::string text;
  for (event const& one : result.events)
    text += std::string{kinds[static_cast<int>(one.kind)]} + ' ' + std::to_string(one.address) +
            ' ' + std::to_string(one.size) + ' ' + result.names.allocators.name(one.allocator) +
            "; ";
  return text;
}

TEST(UmpireReplayLines, AnAllocationIsRecordedOnceAndHasItsNumberForAnAddress) {
  log_writer log;
  log.allocate("a2", "m1", 1000).allocate("a1", "m2", 64).deallocate("a2", "m1");
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(text_of(result), "a 1 1000 pool; a 2 64 HOST; d 1 0 pool; ");
  EXPECT_EQ(result.events.at(2).time, 2u);
}

TEST(UmpireReplayLines, APoolsCallsInsideItsOwnAreBlocks) {
  log_writer log;
  int const outer = log.begin_allocate("a2", "m1", 1000);
  log.allocate("a1", "m2", 4096).allocate("a1", "m3", 8192);
  log.end_allocate(outer, "a2", "m1", 1000);
  log.allocate("a1", "m4", 64);
  log.line("deallocate", ++log.sequence, "a2", "m1", "", "pending");
  int const freeing = log.sequence;
  log.deallocate("a1", "m2").allocate("a1", "m5", 512);  // the pool coalesces
  log.line("deallocate", freeing, "a2", "m1", "", "committed");
  log.deallocate("a1", "m4");
  EXPECT_EQ(text_of(read(log.text)),
            "reserve 2 4096 HOST; reserve 3 8192 HOST; a 1 1000 pool; a 4 64 HOST; d 1 0 pool; "
            "unreserve 2 4096 HOST; reserve 5 512 HOST; d 4 0 HOST; ");
}

/// Makes the adaptor a3 over the pool a2.
void make_adaptor(log_writer& log, std::string const& id = "a3", std::string const& below = "a2") {
  log.text += R"({"allocator_id":")" + id + R"(","args":{"parent_allocator":")" + below +
              R"("},"name":"ts","op":"make_allocator","seq":)" + std::to_string(++log.sequence) +
              R"(,"status":"committed","strategy":"ThreadSafeAllocator","tracking":true})" + "\n";
}

TEST(UmpireReplayLines, AnAdaptorsAllocationsAreThoseOfItsPool) {
  log_writer log;
  make_adaptor(log);
  make_adaptor(log, "a4", "a3");
  log.allocate("a2", "m1", 100).allocate("a3", "m2", 200);
  int const outer = log.begin_allocate("a4", "m3", 300);
  log.allocate("a1", "m4", 4096);  // the pool takes a block, and has no lines of its own
  log.end_allocate(outer, "a4", "m3", 300).deallocate("a4", "m3").deallocate("a3", "m2");
  EXPECT_EQ(text_of(read(log.text)),
            "a 1 100 pool; a 2 200 pool; reserve 4 4096 HOST; a 3 300 pool; d 3 0 pool; "
            "d 2 0 pool; ");
}

TEST(UmpireReplayLines, AnAdaptorsCallAndTheCallBelowCountOnce) {
  for (std::string const below : {"m2", "m1"}) {  // with a number of its own, or the same
    log_writer log;
    make_adaptor(log);
    int const outer = log.begin_allocate("a3", "m1", 100);
    int const inner = log.begin_allocate("a2", below, 100);
    log.allocate("a1", "m9", 4096).end_allocate(inner, "a2", below, 100);
    log.end_allocate(outer, "a3", "m1", 100);
    log.line("deallocate", ++log.sequence, "a3", "m1", "", "pending");
    int const freeing = log.sequence;
    log.deallocate("a2", below).line("deallocate", freeing, "a3", "m1", "", "committed");
    std::string const number = below.substr(1);
    EXPECT_EQ(text_of(read(log.text)),
              "reserve 9 4096 HOST; a " + number + " 100 pool; d " + number + " 0 pool; ");
  }
}

/// A pool whose resource is an adaptor.
TEST(UmpireReplayLines, APoolsBlocksMayComeThroughAnAdaptor) {
  log_writer log;
  make_adaptor(log, "a3", "a1");
  log.text +=
      R"({"allocator_id":"a4","args":{"parent_allocator":"a3"},"name":"upper","op":"make_allocator","seq":9,"status":"committed","strategy":"QuickPool"})"
      "\n";
  log.sequence = 9;
  int const outer = log.begin_allocate("a4", "m1", 100);
  int const passed = log.begin_allocate("a3", "m2", 4096);
  log.allocate("a1", "m3", 4096).end_allocate(passed, "a3", "m2", 4096);
  log.end_allocate(outer, "a4", "m1", 100);
  EXPECT_EQ(text_of(read(log.text)), "reserve 3 4096 HOST; a 1 100 upper; ");
}

TEST(UmpireReplayLines, AnOperationThatFailsIsNoEvent) {
  log_writer log;
  (void)log.begin_allocate("a1", "m1", 1 << 30);
  log.allocate("a2", "m2", 8).allocate("a1", "m3", 16);
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(text_of(result), "a 2 8 pool; a 3 16 HOST; ");
}

TEST(UmpireReplayLines, SaysWhatIsWrongWithALine) {
  auto const reason = [](std::string const& line) {
    log_writer log;
    log.allocate("a1", "m1", 8);
    auto const result = read(log.text + line + '\n');
    EXPECT_EQ(result.events.size(), 1u) << line;
    EXPECT_EQ(result.problem_count, 1u) << line;
    std::string const problem = result.problems.empty() ? "" : result.problems[0];
    return problem.substr(0, problem.find(": {"));
  };
  EXPECT_EQ(reason(R"({"op":"allocate"})"),
            "FILE:6: the object has no member 'status' that is a string");
  EXPECT_EQ(reason(R"({"op":"allocate","status":"done"})"), "FILE:6: the status is unknown");
  EXPECT_EQ(reason(R"({"op":"resize","status":"pending"})"), "FILE:6: the operation is unknown");
  EXPECT_EQ(reason(R"({"op":"allocate","status":"pending"})"), "FILE:6: allocator_id is missing");
  EXPECT_EQ(reason(R"({"op":"allocate","status":"pending","allocator_id":"b1"})"),
            "FILE:6: allocator_id does not begin with 'a'");
  EXPECT_EQ(reason(R"({"op":"allocate","status":"pending","allocator_id":"a1"})"),
            "FILE:6: allocation_id is missing");
  std::string const ids = R"("allocator_id":"a1","allocation_id":"m2","status":"committed")";
  EXPECT_EQ(reason(R"({"op":"deallocate",)" + ids + "}"), "FILE:6: seq is missing");
  EXPECT_EQ(reason(R"({"op":"allocate","seq":9,)" + ids + "}"), "FILE:6: size is missing");
  EXPECT_EQ(reason(R"({"op":"allocate","seq":9,"size":-1,)" + ids + "}"),
            "FILE:6: size is negative");
  EXPECT_EQ(reason(R"({"op":"make_allocator","status":"committed","allocator_id":"a3"})"),
            "FILE:6: name is missing");
}

/// The members of later schemas may mean other things.
TEST(UmpireReplayLines, RefusesUnknownSchemas) {
  log_writer log;
  log.allocate("a1", "m1", 100);
  auto const with_schema = [&](std::string const& schema) {
    std::string text = log.text, known = R"(,"schema":"v2")";
    return read(text.replace(text.find(known), known.size(), schema));
  };
  EXPECT_EQ(with_schema(R"(,"schema":"v2")").events.size(), 1u);
  for (std::string const schema : {R"(,"schema":"v3")", ""}) {
    auto const refused = with_schema(schema);
    EXPECT_TRUE(refused.events.empty());
    EXPECT_FALSE(refused.refusal.empty());
    EXPECT_EQ(refused.problems.at(0).substr(0, 30),
              schema.empty() ? "FILE:1: the schema is missing;" : "FILE:1: the schema 'v3' is unk");
  }
  auto const mixed = read(log.text + R"({"kind":"umpire_replay","schema":"v3"})" + '\n' +
                          R"({"op":"allocate","status":"committed","allocator_id":"a1"})");
  EXPECT_EQ(mixed.events.size(), 1u);
  ASSERT_EQ(mixed.problem_count, 2u);
  EXPECT_EQ(mixed.problems[1].substr(0, 42), "FILE:7: the line is of an unknown schema: ");
}

TEST(UmpireReplayLines, ARingOfAllocatorsEnds) {
  log_writer log;
  auto const maker = [&](std::string const& id, std::string const& below) {
    log.text += R"({"allocator_id":")" + id + R"(","args":{"parent_allocator":")" + below +
                R"("},"name":"ring","op":"make_allocator","seq":2,"status":"committed"})" + "\n";
  };
  maker("a3", "a4");
  maker("a4", "a3");
  int const outer = log.begin_allocate("a3", "m1", 8);
  log.allocate("a1", "m2", 16).end_allocate(outer, "a3", "m1", 8);
  EXPECT_EQ(text_of(read(log.text)), "a 2 16 HOST; a 1 8 ring; ");
}

TEST(UmpireReplayLines, RandomCallsGiveTheAllocationsInUseOfAModel) {
  std::uint32_t const seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  log_writer log;
  std::map<std::uint64_t, std::uint64_t> model;  // number and size
  std::uint64_t next = 1;
  for (int step = 0; step < 3000; ++step) {
    std::string const allocator = random() % 2 == 0 ? "a1" : "a2";
    if (model.empty() || random() % 100 < 55) {
      int const size = static_cast<int>(random() % 1000);
      log.allocate(allocator, 'm' + std::to_string(next), size);
      model[next++] = static_cast<std::uint64_t>(size);
    } else {
      auto const freed = std::next(model.begin(), static_cast<long>(random() % model.size()));
      log.deallocate(allocator, 'm' + std::to_string(freed->first));
      model.erase(freed);
    }
  }
  std::map<std::uint64_t, std::uint64_t> live;
  auto const result = read(log.text);
  for (event const& one : result.events) {
    if (one.kind == event_kind::allocate)
      ASSERT_TRUE(live.emplace(one.address, one.size).second);
    else
      ASSERT_EQ(live.erase(one.address), 1u);
  }
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(live, model);
}

}  // namespace umpire_replay_lines_test
}  // namespace quarry::test
