// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/rmm_writer.hpp"

#include "quarry/core/errors.hpp"
#include "trace/log_files.hpp"
#include "trace/rmm_log.hpp"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

namespace quarry::test {
namespace rmm_writer_test {

using trace::event;
using trace::event_kind;

std::string written(std::vector<event> const& events, trace::name_tables const& names) {
  std::ostringstream output;
  trace::rmm_writer writer{output};
  writer.write(events, names);
  writer.flush();
  return output.str();
}

TEST(RmmWriter, WritesTheRowsOfRmm) {
  trace::name_tables names;
  std::uint32_t const thread = names.threads.number("4142");
  std::uint32_t const stream = names.streams.number("0x1");
  EXPECT_EQ(written({{.time = 37'293'123'456'789,
                      .address = 0x7f2c5a000000,
                      .size = 1024,
                      .thread = thread,
                      .stream = stream},
                     {.time = 86'400'000'001'000, .size = 9, .kind = event_kind::fail},
                     {.address = 0x7f2c5a000000, .size = 1024, .kind = event_kind::deallocate}},
                    names),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "4142,10:21:33.123456,allocate,0x7f2c5a000000,1024,0x1\n"
            "0,00:00:00.000001,allocate failure,(nil),9,0\n"
            "0,00:00:00.000000,free,0x7f2c5a000000,1024,0\n");
}

TEST(RmmWriter, NamesThatAreNoNumbersBecomeNumbers) {
  trace::name_tables names;
  std::uint32_t const thread = names.threads.number("worker");
  std::uint32_t const stream = names.streams.number("side stream");
  EXPECT_EQ(written({{.address = 16, .size = 1, .thread = thread, .stream = stream}}, names),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "9223372036854775809,00:00:00.000000,allocate,0x10,1,0x8000000000000001\n");
}

TEST(RmmWriter, AFreeWithoutASizeGetsTheAllocationsSize) {
  auto const result =
      read_all(trace::open_rmm_log, written({{.address = 16, .size = 77},
                                             {.address = 16, .kind = event_kind::deallocate},
                                             {.address = 16, .kind = event_kind::deallocate}},
                                            {}));
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.events[1].size, 77u);
  EXPECT_EQ(result.events[2].size, 0u);
}

TEST(RmmWriter, CountsTheEventsThatItSkips) {
  std::ostringstream output;
  trace::rmm_writer writer{output};
  for (int kind = 0; kind < trace::event_kinds; ++kind) {
    event const one{.address = 16, .size = 1, .kind = static_cast<event_kind>(kind)};
    writer.write({&one, 1}, {});
  }
  EXPECT_EQ(writer.written(), 3u);
  EXPECT_EQ(writer.skipped(), 4u);
}

TEST(RmmWriter, SaysThatAFileCannotBeWritten) {
  try {
    trace::rmm_writer const writer{std::string{"/nowhere/log.csv"}};
    FAIL();
  } catch (resource_failed const& failure) {
    EXPECT_EQ(failure.message(),
              "/nowhere/log.csv: cannot create the file: No such file or directory");
  }
  trace::rmm_writer full{std::string{"/dev/full"}};
  std::vector<event> const events(10'000, {.address = 16, .size = 1});
  try {
    full.write(events, {});
    full.flush();
    FAIL();
  } catch (resource_failed const& failure) {
    EXPECT_EQ(failure.message(), "/dev/full: cannot write the file: No space left on device");
  }
}

TEST(RmmWriter, SaysThatAStreamFailed) {
  std::ostringstream output;
  trace::rmm_writer writer{output};
  event const one{.address = 16, .size = 1};
  writer.write({&one, 1}, {});
  output.setstate(std::ios::badbit);
  try {
    writer.write({&one, 1}, {});
    FAIL();
  } catch (resource_failed const& failure) {
    EXPECT_EQ(failure.message(), "rmm_writer: cannot write: the stream failed after 2 rows");
  }
}

TEST(RmmWriter, TheReaderReturnsWhatWasWritten) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    trace::name_tables names;
    for (auto const* thread : {"17", "4142", "18446744073709551615"}) names.threads.number(thread);
    for (auto const* stream : {"0x1", "0x2", "0x7f0012345678"}) names.streams.number(stream);
    std::vector<event> events;
    std::uint64_t time = random() % 86'400'000'000;
    for (int i = 0; i < 3000; ++i) {
      bool const is_pause = random() % 50 == 0;
      time += random() % (is_pause ? 70'000'000'000 : 1000);  // at most 19 hours
      auto const address_bits = random() % 60, size_bits = random() % 64;
      event one{.time = time * 1000,
                .address = (random() >> address_bits) + 1,
                .size = random() >> size_bits,
                .thread = static_cast<std::uint32_t>(random() % 4),
                .stream = static_cast<std::uint32_t>(random() % 4),
                .kind = static_cast<event_kind>(random() % 3)};
      if (one.address == 0) one.address = 1;
      if (one.kind == event_kind::fail) one.address = 0;
      if (one.kind == event_kind::deallocate) one.size |= 1;  // else the writer sets it
      events.push_back(one);
    }
    auto const result = read_all(trace::open_rmm_log, written(events, names));
    EXPECT_EQ(result.problem_count, 0u);
    ASSERT_EQ(result.events.size(), events.size());
    auto const name = [](trace::name_table const& table, std::uint32_t entry) {
      return table.name(entry);
    };
    constexpr std::uint64_t day = 86'400'000'000'000;
    std::uint64_t const midnight = events[0].time / day * day;  // the log has no date
    for (std::size_t i = 0; i < events.size(); ++i) {
      event const& one = result.events[i];
      ASSERT_EQ(one.time + midnight, events[i].time) << i;
      ASSERT_EQ(one.kind, events[i].kind) << i;
      ASSERT_EQ(one.address, events[i].address) << i;
      ASSERT_EQ(one.size, events[i].size) << i;
      ASSERT_EQ(name(result.names.threads, one.thread), name(names.threads, events[i].thread));
      ASSERT_EQ(name(result.names.streams, one.stream), name(names.streams, events[i].stream));
    }
  }
}

}  // namespace rmm_writer_test
}  // namespace quarry::test
