// SPDX-License-Identifier: Apache-2.0
#include "trace/umpire_log.hpp"

#include "trace/log_files.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace umpire_log_test {

using trace::event;
using trace::event_kind;

whole_trace read(std::string_view text) { return read_all(trace::open_umpire_log, text); }

/// Writes lines as Umpire does. The time of a line is its number, from 1.
struct log_writer {
  std::string text;
  int time = 0;

  log_writer& line(std::string const& category, std::string const& name, std::string const& numbers,
                   std::string const& strings, std::string const& tags = "\"replay\":\"true\"") {
    text += "{\"category\":\"" + category + "\",\"name\":\"" + name + "\",\"numeric_args\":{" +
            numbers + "},\"string_args\":{" + strings + "},\"tags\":{" + tags +
            "},\"timestamp\":" + std::to_string(++time) + "}\n";
    return *this;
  }
  log_writer& operation(std::string const& name, std::string const& numbers,
                        std::string const& strings) {
    return line("operation", name, numbers, strings);
  }
  log_writer& resource(std::string const& ref, std::string const& name) {
    return line("operation", "make_memory_resource", "\"introspection\":1",
                "\"allocator_ref\":\"" + ref + '"',
                "\"allocator_name\":\"" + name + "\",\"replay\":\"true\"");
  }
  log_writer& pool(std::string const& ref, std::string const& name, std::string const& below) {
    return line("operation", "make_allocator", "\"arg1\":4096,\"arg2\":1024,\"introspection\":1",
                "\"allocator_ref\":\"" + ref + "\",\"arg0\":\"" + below +
                    "\",\"arg4\":\"PoolCoalesceHeuristic<QuickPool>\","
                    "\"type\":\"N6umpire8strategy9QuickPoolE\"",
                "\"allocator_name\":\"" + name + "\",\"replay\":\"true\"");
  }
  log_writer& adaptor(std::string const& ref, std::string const& name, std::string const& below,
                      std::string const& type, std::string const& numbers = {}) {
    return line("operation", "make_allocator", "\"introspection\":1" + numbers,
                "\"allocator_ref\":\"" + ref + "\",\"arg0\":\"" + below +
                    "\",\"type\":\"N6umpire8strategy" + type + "E\"",
                "\"allocator_name\":\"" + name + "\",\"replay\":\"true\"");
  }
  log_writer& allocate(std::string const& ref, std::string const& pointer, std::uint64_t size) {
    return operation("allocate", "\"size\":" + std::to_string(size),
                     "\"allocator_ref\":\"" + ref + "\",\"pointer\":\"" + pointer + '"');
  }
  log_writer& deallocate(std::string const& ref, std::string const& pointer) {
    return operation("deallocate", "",
                     "\"allocator_ref\":\"" + ref + "\",\"pointer\":\"" + pointer + '"');
  }
  log_writer& reallocate(std::string const& ref, std::string const& pointer, std::uint64_t size) {
    return operation("reallocate", "\"size\":" + std::to_string(size),
                     "\"allocator_ref\":\"" + ref + "\",\"current_ptr\":\"" + pointer + '"');
  }
  log_writer& reallocated(std::string const& ref, std::string const& pointer) {
    return operation("reallocate", "",
                     "\"allocator_ref\":\"" + ref + "\",\"new_ptr\":\"" + pointer + '"');
  }
};

/// Events as text: the first letters of the kind, the address in hexadecimal, the size, the
/// allocator's name.
std::string text_of(whole_trace const& result) {
  constexpr char const* kinds[] = {"a", "d", "fail", "reserve", "unreserve", "wait", "phase"};
  std::string text;
  for (event const& one : result.events) {
    char line[128];
    std::snprintf(line, sizeof line, "%s %llx %llu %s; ", kinds[static_cast<int>(one.kind)],
                  static_cast<unsigned long long>(one.address),
                  static_cast<unsigned long long>(one.size),
                  result.names.allocators.name(one.allocator).c_str());
    text += line;
  }
  return text;
}

TEST(UmpireLog, ReadsALogOfUmpire2024) {
  log_writer log;
  log.line("metadata", "version", "\"major\":2024,\"minor\":7,\"patch\":0", "\"rc\":\"\"", "");
  log.resource("0x55a0601ed400", "HOST").pool("0x55a0601fedb0", "pool", "HOST");
  log.allocate("0x55a0601fedb0", "0x55a0601ff960", 1000);
  log.operation("named_allocate", "\"size\":64",
                "\"allocator_ref\":\"0x55a0601ed400\",\"pointer\":\"0x55c2\","
                "\"allocation_name\":\"my \\\"array\\\"\"");
  log.operation("allocate_resource", "\"size\":8",
                "\"allocator_ref\":\"0x55a0601fedb0\",\"pointer\":\"0x99\",\"resource\":\"CUDA\"");
  log.line("operation", "memset", "\"size\":1000,\"value\":0",
           "\"allocator_ref\":\"0x55a0601fedb0\",\"ptr\":\"0x55a0601ff960\"");
  log.deallocate("0x55a0601fedb0", "0x55a0601ff960");
  log.operation("release", "", "\"allocator_ref\":\"0x55a0601fedb0\"");
  log.line("metadata", "event", "", "\"name\":\"step 1\"");
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(result.names.allocators.names(), (std::vector<std::string>{"", "HOST", "pool"}));
  EXPECT_EQ(result.names.call_sites.names(),
            (std::vector<std::string>{"", "my \"array\"", "step 1"}));
  EXPECT_EQ(result.names.streams.names(), (std::vector<std::string>{"", "CUDA"}));
  EXPECT_EQ(
      result.events,
      (std::vector<event>{
          {.time = 4, .address = 0x55a0601ff960, .size = 1000, .allocator = 2},
          {.time = 5, .address = 0x55c2, .size = 64, .allocator = 1, .call_site = 1},
          {.time = 6, .address = 0x99, .size = 8, .stream = 1, .allocator = 2},
          {.time = 8, .address = 0x55a0601ff960, .allocator = 2, .kind = event_kind::deallocate},
          {.time = 10, .call_site = 2, .kind = event_kind::phase}}));
}

// The lines are those that Umpire's source of 2026 prints. Allocations and frees have formats of
// their own; all others are JSON objects with sorted members.
TEST(UmpireLog, EachOperationOfUmpire2026IsKnown) {
  std::string const text =
      R"({"category":"metadata","name":"version","numeric_args":{"major":2026,"minor":7,"patch":1},"string_args":{"rc":""},"tags":{},"timestamp":1795286725436249344})"
      "\n"
      R"({"category":"operation","name":"make_memory_resource","numeric_args":{"introspection":1},"string_args":{"allocator_ref":"0x55a0601ed400"},"tags":{"allocator_name":"HOST","replay":"true"},"timestamp":1795286725436447168})"
      "\n"
      R"({"category":"operation","name":"make_allocator","numeric_args":{"arg1":4096,"arg2":1024,"arg3":16,"introspection":1},"string_args":{"allocator_ref":"0x55a0601fedb0","arg0":"HOST","arg4":"PoolCoalesceHeuristic<QuickPool>","type":"N6umpire8strategy9QuickPoolE"},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":1795286725436482110})"
      "\n"
      R"({"category":"operation","name":"set_default_allocator","numeric_args":{},"string_args":{"allocator_ref":"0x55a0601fedb0"},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":1})"
      "\n"
      R"({"category":"operation","name":"allocate","numeric_args":{"size":1000},"string_args":{"allocator_ref":"0x55a0601fedb0","pointer":"0x55a0601ff960"},"tags":{"replay":"true"},"timestamp":2})"
      "\n"
      R"({"category":"operation","name":"named_allocate","numeric_args":{"size":64},"string_args":{"allocator_ref":"0x55a0601fedb0","pointer":"0x55c2022c1d50","allocation_name":"my array"},"tags":{"replay":"true"},"timestamp":3})"
      "\n"
      R"({"category":"operation","name":"allocate_resource","numeric_args":{"size":8},"string_args":{"allocator_ref":"0x55a0601fedb0","pointer":"0x99","resource":"camp::resource::Cuda"},"tags":{"replay":"true"},"timestamp":4})"
      "\n"
      R"({"category":"operation","name":"memset","numeric_args":{"size":1000,"value":0},"string_args":{"allocator_ref":"0x55a0601fedb0","ptr":"0x55a0601ff960"},"tags":{"allocator_name":"pool","async":"true","replay":"true"},"timestamp":5})"
      "\n"
      R"({"category":"operation","name":"copy","numeric_args":{"dst_offset":0,"size":64,"src_offset":0},"string_args":{"dst":"0x55c2022c1d50","dst_allocator_ref":"0x55a0601fedb0","src":"0x55a0601ff960","src_allocator_ref":"0x55a0601fedb0"},"tags":{"dst_allocator_name":"pool","replay":"true","src_allocator_name":"pool"},"timestamp":6})"
      "\n"
      R"({"category":"operation","name":"prefetch","numeric_args":{"device":0,"size":8},"string_args":{"allocator_ref":"0x55a0601fedb0","ptr":"0x99"},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":7})"
      "\n"
      R"({"category":"operation","name":"register_external_allocation","numeric_args":{"size":64},"string_args":{"allocator_ref":"0x55a0601ed400","pointer":"0x7f00"},"tags":{"allocator_name":"HOST","replay":"true"},"timestamp":8})"
      "\n"
      R"({"category":"operation","name":"deregister_external_allocation","numeric_args":{},"string_args":{"pointer":"0x7f00"},"tags":{"replay":"true"},"timestamp":9})"
      "\n"
      R"({"category":"operation","name":"reallocate","numeric_args":{"size":2000},"string_args":{"allocator_ref":"0x55a0601fedb0","current_ptr":"0x55a0601ff960"},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":10})"
      "\n"
      R"({"category":"operation","name":"reallocate","numeric_args":{},"string_args":{"allocator_ref":"0x55a0601fedb0","new_ptr":"0x55a060200000"},"tags":{"allocator_name":"pool"},"timestamp":11})"
      "\n"
      R"({"category":"operation","name":"deallocate","string_args":{"allocator_ref":"0x55a0601fedb0","pointer":"0x55c2022c1d50"},"tags":{"replay":"true"},"timestamp":12})"
      "\n"
      R"({"category":"operation","name":"deallocate_resource","string_args":{"allocator_ref":"0x55a0601fedb0","pointer":"0x99", "resource":"camp::resource::Cuda"},"tags":{"replay":"true"},"timestamp":13})"
      "\n"
      R"({"category":"operation","name":"coalesce","numeric_args":{},"string_args":{},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":14})"
      "\n"
      R"({"category":"operation","name":"release","numeric_args":{},"string_args":{"allocator_ref":"0x55a0601fedb0"},"tags":{"allocator_name":"pool","replay":"true"},"timestamp":15})"
      "\n"
      R"({"category":"operation","name":"move","numeric_args":{},"string_args":{"dst_allocator_ref":"0x55a0601ed400","ptr":"0x55a060200000"},"tags":{"allocator_name":"HOST","replay":"true"},"timestamp":16})"
      "\n"
      R"({"category":"operation","name":"destroy_allocator","numeric_args":{"allocator_id":3,"freed_allocations":0},"string_args":{"allocator_name":"pool"},"tags":{"replay":"true"},"timestamp":17})"
      "\n"
      R"({"category":"metadata","name":"event","numeric_args":{},"string_args":{"name":"step 1"},"tags":{"replay":"true"},"timestamp":18})"
      "\n"
      R"({"category":"statistic","name":"anon","numeric_args":{},"string_args":{},"tags":{},"timestamp":19})"
      "\n";
  auto const result = read(text);
  EXPECT_EQ(result.problem_count, 0u) << (result.problems.empty() ? "" : result.problems[0]);
  EXPECT_EQ(text_of(result),
            "a 55a0601ff960 1000 pool; a 55c2022c1d50 64 pool; a 99 8 pool; "
            "a 55a060200000 2000 pool; d 55a0601ff960 0 pool; d 55c2022c1d50 0 pool; d 99 0 pool; "
            "phase 0 0 ; ");
  EXPECT_EQ(result.names.streams.names(), (std::vector<std::string>{"", "camp::resource::Cuda"}));
}

TEST(UmpireLog, TheApplicationsAllocationsFromAPoolsResourceAreAllocations) {
  log_writer log;
  log.resource("0x1", "HOST").pool("0x2", "pool", "HOST");
  log.allocate("0x1", "0x1000", 4096).allocate("0x2", "0x9000", 16).deallocate("0x1", "0x1000");
  EXPECT_EQ(text_of(read(log.text)), "a 1000 4096 HOST; a 9000 16 pool; d 1000 0 HOST; ");
}

TEST(UmpireLog, TheLastLineMayBeAnAllocationFromAPoolsResource) {
  log_writer log;
  log.resource("0x1", "HOST").pool("0x2", "pool", "HOST").allocate("0x1", "0x1000", 4096);
  EXPECT_EQ(text_of(read(log.text)), "a 1000 4096 HOST; ");
}

TEST(UmpireLog, APoolsBlocksAreReserved) {
  log_writer log;
  log.resource("0x1", "HOST").pool("0x2", "inner", "HOST").pool("0x3", "outer", "inner");
  log.allocate("0x1", "0x1000", 4096).allocate("0x3", "0x1ff0", 16);  // grows
  log.allocate("0x3", "0x1000", 16);
  log.deallocate("0x3", "0x1ff0").deallocate("0x3", "0x1000");
  log.deallocate("0x1", "0x1000").allocate("0x1", "0x4000", 8192);  // coalesces
  log.deallocate("0x1", "0x4000");
  log.allocate("0x1", "0x1000", 4096).allocate("0x3", "0x1ff8", 16);  // crosses the block's end
  EXPECT_EQ(text_of(read(log.text)),
            "reserve 1000 4096 HOST; a 1ff0 16 outer; a 1000 16 outer; d 1ff0 0 outer; "
            "d 1000 0 outer; unreserve 1000 4096 HOST; reserve 4000 8192 HOST; "
            "unreserve 4000 8192 HOST; reserve 1000 4096 HOST; a 1ff8 16 outer; ");
}

TEST(UmpireLog, AnAdaptorsAllocationsAreThoseOfItsAllocator) {
  constexpr char const* types[] = {
      "19ThreadSafeAllocator", "11SizeLimiter",       "23NamedAllocationStrategy", "10NamingShim",
      "10NumaPolicy",          "17AllocationAdvisor", "20AllocationPrefetcher"};
  for (char const* const type : types) {
    log_writer log;
    log.resource("0x1", "HOST").pool("0x2", "pool", "HOST");
    log.adaptor("0x3", "ts", "pool", type).adaptor("0x4", "outer", "ts", "11SizeLimiter");
    log.allocate("0x2", "0x1000", 100).allocate("0x3", "0x2000", 200);
    log.operation("named_allocate", "\"size\":300",
                  R"("allocator_ref":"0x4","pointer":"0x3000","allocation_name":"array")");
    log.deallocate("0x4", "0x3000").deallocate("0x3", "0x2000");
    auto const result = read(log.text);
    EXPECT_EQ(text_of(result),
              "a 1000 100 pool; a 2000 200 pool; a 3000 300 pool; d 3000 0 pool; d 2000 0 pool; ")
        << type;
    EXPECT_EQ(result.names.allocators.names(), (std::vector<std::string>{"", "HOST", "pool"}));
    EXPECT_EQ(result.names.call_sites.names(),
              (std::vector<std::string>{"", "ts", "array < outer < ts"}));
  }
}

TEST(UmpireLog, AnAlignedAllocatorRequestsMoreThanItsCaller) {
  log_writer log;
  log.resource("0x1", "HOST").adaptor("0x2", "by 64", "HOST", "16AlignedAllocator", ",\"arg1\":64");
  log.adaptor("0x3", "by default", "HOST", "16AlignedAllocator");
  log.allocate("0x2", "0x1000", 100).allocate("0x3", "0x2000", 100).allocate("0x3", "0x3000", 0);
  EXPECT_EQ(text_of(read(log.text)), "a 1000 171 HOST; a 2000 123 HOST; a 3000 0 HOST; ");
}

/// The second interface of 2026 also writes the calls that an adaptor makes.
TEST(UmpireLog, AnAdaptorsCallAndTheCallBelowCountOnce) {
  log_writer log;
  log.resource("0x1", "HOST").pool("0x2", "pool", "HOST");
  log.adaptor("0x3", "aligned", "pool", "16AlignedAllocator");
  log.allocate("0x1", "0x1000", 4096).allocate("0x2", "0x1000", 123).allocate("0x3", "0x1010", 100);
  log.allocate("0x2", "0x1080", 123).allocate("0x3", "0x1090", 100);
  log.deallocate("0x3", "0x1010").deallocate("0x2", "0x1000");
  log.allocate("0x3", "0x1010", 50);  // at the address of a freed one
  log.deallocate("0x3", "0x1010");
  EXPECT_EQ(text_of(read(log.text)),
            "reserve 1000 4096 HOST; a 1000 123 pool; a 1080 123 pool; d 1000 0 pool; "
            "a 1010 73 pool; d 1010 0 pool; ");
}

TEST(UmpireLog, AnAdaptorOverAnUnknownAllocatorIsOneOfItsOwn) {
  log_writer log;
  log.adaptor("0x3", "ts", "lost", "19ThreadSafeAllocator").allocate("0x3", "0x1000", 100);
  log.adaptor("0x4", "a", "ts", "11SizeLimiter")
      .adaptor("0x3", "ts", "a", "11SizeLimiter");  // ring
  log.allocate("0x3", "0x2000", 8);
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  ASSERT_EQ(result.events.size(), 2u);
  EXPECT_EQ(result.names.allocators.name(result.events[0].allocator), "ts");
}

TEST(UmpireLog, AReallocationIsAnAllocationAndADeallocation) {
  log_writer log;
  log.resource("0x1", "HOST").allocate("0x1", "0x10", 4);
  log.reallocate("0x1", "0x10", 8).reallocated("0x1", "0x10");  // in place
  log.reallocate("0x1", "0x10", 12);
  log.operation("copy", "\"size\":8", "\"src\":\"0x10\",\"dst\":\"0x20\"");
  log.reallocated("0x1", "0x20");
  log.reallocate("0x1", "0", 5).allocate("0x1", "0x30", 5).reallocated("0x1", "0x30");
  log.reallocate("0x1", "0x30", 0).deallocate("0x1", "0x30").allocate("0x1", "0x40", 0);
  log.reallocated("0x1", "0x40");
  log.reallocate("0x1", "0x20", 1'000'000);  // fails
  log.deallocate("0x1", "0x20");
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(text_of(result),
            "a 10 4 HOST; d 10 0 HOST; a 10 8 HOST; a 20 12 HOST; d 10 0 HOST; a 30 5 HOST; "
            "d 30 0 HOST; a 40 0 HOST; d 20 0 HOST; ");
}

TEST(UmpireLog, AnAllocatorWhoseMakerIsMissingIsNamedByItsAddress) {
  log_writer log;
  log.allocate("0xabc", "0x10", 4);
  EXPECT_EQ(text_of(read(log.text)), "a 10 4 0xabc; ");
}

TEST(UmpireLog, NullPointersWithoutBytesAreNoEvents) {
  log_writer log;
  log.allocate("0x1", "(nil)", 0).deallocate("0x1", "(nil)").deallocate("0x1", "0");
  auto const result = read(log.text);
  EXPECT_TRUE(result.events.empty());
  EXPECT_EQ(result.problem_count, 0u);
}

TEST(UmpireLog, SaysWhatIsWrongWithALine) {
  auto const reason = [](std::string const& line) {
    log_writer log;
    log.allocate("0x1", "0x10", 4);
    auto const result = read(log.text + line);
    EXPECT_EQ(result.events.size(), 1u) << line;
    EXPECT_EQ(result.problem_count, 1u) << line;
    std::string const problem = result.problems.empty() ? "" : result.problems[0];
    return problem.substr(0, problem.find(": {"));
  };
  auto const operation = [&](std::string const& name, std::string const& numbers,
                             std::string const& strings) {
    log_writer log;
    log.operation(name, numbers, strings);
    return reason(log.text);
  };
  std::string const ref = "\"allocator_ref\":\"0x1\"";
  EXPECT_EQ(reason("{\"category\":"), "FILE:2: column 13: expected a value");
  EXPECT_EQ(reason("{}"), "FILE:2: the object has no member 'category' that is a string");
  EXPECT_EQ(reason("{\"kind\":\"replay\"}"),
            "FILE:2: the format of Umpire before 2022.10 is not supported");
  EXPECT_EQ(reason("{\"category\":\"operation\"}"),
            "FILE:2: the object has no member 'name' that is a string");
  EXPECT_EQ(reason("{\"category\":\"operation\",\"name\":\"allocate\"}"),
            "FILE:2: timestamp is missing");
  EXPECT_EQ(reason("{\"category\":\"operation\",\"name\":\"allocate\",\"timestamp\":-1}"),
            "FILE:2: timestamp is negative");
  EXPECT_EQ(operation("shrink", "", ""), "FILE:2: the operation is unknown");
  EXPECT_EQ(operation("allocate", "\"size\":1", "\"pointer\":\"0x1\""),
            "FILE:2: allocator_ref is missing");
  EXPECT_EQ(operation("allocate", "", ref + ",\"pointer\":\"0x1\""), "FILE:2: size is missing");
  EXPECT_EQ(operation("allocate", "\"size\":-1", ref + ",\"pointer\":\"0x1\""),
            "FILE:2: size is negative");
  EXPECT_EQ(operation("allocate", "\"size\":1.5", ref + ",\"pointer\":\"0x1\""),
            "FILE:2: size is not a whole number");
  EXPECT_EQ(operation("allocate", "\"size\":\"1\"", ref + ",\"pointer\":\"0x1\""),
            "FILE:2: size is not a number");
  EXPECT_EQ(operation("allocate", "\"size\":18446744073709551616", ref + ",\"pointer\":\"0x1\""),
            "FILE:2: size exceeds 64 bits");
  EXPECT_EQ(operation("allocate", "\"size\":1", ref), "FILE:2: pointer is missing");
  EXPECT_EQ(operation("allocate", "\"size\":1", ref + ",\"pointer\":1"),
            "FILE:2: pointer is not a string");
  EXPECT_EQ(operation("allocate", "\"size\":1", ref + ",\"pointer\":\"(nil)\""),
            "FILE:2: the allocation has bytes and a null pointer");
  EXPECT_EQ(operation("deallocate", "", ref + ",\"pointer\":\"q\""),
            "FILE:2: pointer is not a whole number");
  EXPECT_EQ(operation("make_allocator", "", ref), "FILE:2: tags.allocator_name is missing");
  EXPECT_EQ(operation("reallocate", "", ref + ",\"new_ptr\":\"0x1\""),
            "FILE:2: no line 'reallocate' with current_ptr precedes");
  EXPECT_EQ(reason("{\"category\":\"metadata\",\"name\":\"event\",\"timestamp\":1}"),
            "FILE:2: string_args.name is missing");
}

TEST(UmpireLog, RefusesFilesWithoutAReadableLine) {
  EXPECT_EQ(read("").refusal, "FILE: the file has no lines");
  EXPECT_EQ(read("{ \"kind\":\"replay\", \"uid\":1 }\n").refusal,
            "FILE: no line is a line of Umpire's log; the first problem: FILE:1: the format of "
            "Umpire before 2022.10 is not supported: { \"kind\":\"replay\", \"uid\":1 }");
}

TEST(UmpireLog, AMakerThatNamesItselfOrARingOfMakersEnds) {
  log_writer log;
  log.resource("0x1", "a").pool("0x1", "a", "a").pool("0x2", "b", "a").pool("0x1", "a", "b");
  log.allocate("0x1", "0x100", 64).allocate("0x2", "0x100", 8).allocate("0x3", "0x100", 8);
  auto const result = read(log.text);
  EXPECT_EQ(result.problem_count, 0u);
  EXPECT_EQ(result.events.size(), 3u);
}

TEST(UmpireLog, AllOtherEventsSurviveADamagedLine) {
  std::vector<std::string> lines;
  log_writer log;
  for (int i = 1; i <= 6; ++i) {
    log.text.clear();
    log.allocate("0x1", "0x" + std::to_string(i) + "000", 64);
    log.text.pop_back();
    lines.push_back(log.text);
  }
  damage_each_line(
      trace::open_umpire_log, "", lines,
      [&](char const* name, std::size_t, std::string const& prefix, whole_trace const& result) {
        SCOPED_TRACE(name);
        EXPECT_EQ(result.events.size(), lines.size() - 1);
        EXPECT_EQ(result.problem_count, 1u);
        EXPECT_EQ(result.problems.at(0).substr(0, prefix.size()), prefix);
      });
}

TEST(UmpireLog, RandomCallsGiveTheAllocationsInUseOfAModel) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    log_writer log;
    log.resource("0x1", "HOST").pool("0x2", "pool", "HOST");
    std::map<std::uint64_t, std::uint64_t> model;  // address and size
    std::uint64_t next = 0x1000;
    auto const name_of = [](std::uint64_t address) {
      char name[24];
      std::snprintf(name, sizeof name, "0x%llx", static_cast<unsigned long long>(address));
      return std::string{name};
    };
    for (int step = 0; step < 2000; ++step) {
      std::uint64_t const size = random() % 1000 + 1;
      auto const old = model.lower_bound(0x1000 + random() % (next - 0xfff));
      switch (random() % 4) {
        case 0:
        case 1:
          log.allocate("0x2", name_of(next), size);
          model[next] = size;
          next += 1024;
          break;
        case 2:
          if (old == model.end()) break;
          log.deallocate("0x2", name_of(old->first));
          model.erase(old);
          break;
        default: {
          if (old == model.end()) break;
          bool const is_moved = random() % 2 == 0;
          std::uint64_t const address = is_moved ? next : old->first;
          log.reallocate("0x2", name_of(old->first), size).reallocated("0x2", name_of(address));
          model.erase(old);
          model[address] = size;
          if (is_moved) next += 1024;
          break;
        }
      }
    }
    for (std::size_t const batch : {1u, 64u}) {
      auto const result = read_all(trace::open_umpire_log, log.text, batch);
      std::map<std::uint64_t, std::uint64_t> in_use;
      for (event const& one : result.events) {
        if (one.kind == event_kind::allocate)
          ASSERT_TRUE(in_use.emplace(one.address, one.size).second);
        else
          ASSERT_EQ(in_use.erase(one.address), 1u);
      }
      EXPECT_EQ(in_use, model);
    }
  }
}

TEST(UmpireLog, IsRecognisedByALine) {
  log_writer log;
  log.resource("0x1", "HOST");
  EXPECT_TRUE(trace::looks_like_umpire_log(bytes_of(log.text)));
  EXPECT_TRUE(trace::looks_like_umpire_log(bytes_of("damaged\n" + log.text + "{")));
  EXPECT_TRUE(trace::looks_like_umpire_log(bytes_of("{\"kind\":\"replay\"}")));
  EXPECT_FALSE(trace::looks_like_umpire_log(bytes_of("{\"a\":1}")));
}

}  // namespace umpire_log_test
}  // namespace quarry::test
