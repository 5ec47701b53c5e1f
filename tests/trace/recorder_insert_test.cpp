// SPDX-License-Identifier: Apache-2.0
// Events with times of their own, in the file and in the ring of a recorder.
#include "quarry/core/errors.hpp"
#include "quarry/trace/recorder.hpp"
#include "trace/event_ticks.hpp"
#include "trace/recorded_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace quarry::test {

using namespace trace;
namespace recorder_insert_test {

constexpr std::size_t lane = recorder::buffered_events;

std::uint64_t host_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}
event inserted(std::uint64_t number, std::uint64_t time, std::uint32_t thread = 0) {
  event result = numbered(number);
  result.time = time;
  result.thread = thread;
  return result;
}
/// Waits until the clock has another time, so that the order of events is the order of times.
std::uint64_t next_ns() {
  std::uint64_t const before = host_ns();
  while (host_ns() <= before + 1) {
  }
  return host_ns();
}
void expect_ascending(std::vector<event> const& events) {
  EXPECT_TRUE(std::is_sorted(events.begin(), events.end(),
                             [](event const& a, event const& b) { return a.time < b.time; }));
}

TEST(RecorderInsert, PutsEventsBetweenThoseOfTheHost) {
  temporary_path const path;
  recorder target{path, event_clock::steady};
  target.hold_back(100);
  std::uint32_t const sm = target.thread("SM 17");
  EXPECT_EQ(target.thread("SM 17"), sm);
  target.record(numbered(1));
  std::uint64_t const first = next_ns();
  (void)next_ns();
  target.record(numbered(3));
  std::uint64_t const second = next_ns();
  (void)next_ns();
  target.record(numbered(5));
  EXPECT_EQ(target.insert(std::vector{inserted(2, first, sm), inserted(4, second, sm)}), 0u);
  target.record(numbered(6));
  target.close();
  auto const [events, names] = read_back(path);
  EXPECT_EQ(numbers_of(events), range(1, 7));
  expect_ascending(events);
  EXPECT_EQ(events[3].time - events[1].time, second - first);
  EXPECT_EQ(names.threads.name(events[1].thread), "SM 17");
}

TEST(RecorderInsert, GivesTimesOutsideTheTraceTheNearestTime) {
  temporary_path const path;
  recorder target{path};
  target.record(numbered(2));
  target.hold_back(10);
  EXPECT_EQ(target.insert(std::vector{inserted(1, 0), inserted(3, ~std::uint64_t{0} / 2)}), 0u);
  target.record(numbered(4));
  target.close();
  auto const events = read_back(path).events;
  EXPECT_EQ(numbers_of(events), range(1, 5));
  EXPECT_EQ(events[0].time, 0u);
  expect_ascending(events);
}

TEST(RecorderInsert, ConvertsTheSteadyClockExactlyAndNeverGoesBack) {
  tick_scale scale{tick_source{false}};
  std::uint64_t const early = next_ns();
  (void)next_ns();
  (void)scale.advance();
  EXPECT_EQ(scale.ns_of(early), scale.ns_of_steady(early));
  // An interrupted thread stores an event of this time only now, after an insert.
  std::uint64_t const now = scale.ns_of_steady(~std::uint64_t{0});
  EXPECT_GT(now, scale.ns_of_steady(early));
  scale.advance_results();
  EXPECT_EQ(scale.ns_of(early), now);
  std::uint64_t const later = next_ns();
  (void)scale.advance();
  EXPECT_EQ(scale.ns_of(later), scale.ns_of_steady(later));
}

TEST(RecorderInsert, RefusesEventsThatAreNotInOrder) {
  temporary_path const path;
  recorder target{path};
  EXPECT_THROW(target.insert(std::vector{inserted(1, 2), inserted(2, 1)}), bad_argument);
  EXPECT_EQ(target.insert({}), 0u);
  target.close();
  EXPECT_TRUE(read_back(path).events.empty());
}

TEST(RecorderInsert, CountsEventsThatComeAfterTheirPlaceWasWritten) {
  for (bool const is_flushed : {false, true}) {
    temporary_path const path;
    recorder target{path};
    target.hold_back(lane);
    std::uint64_t const early = next_ns();
    std::uint64_t const host = is_flushed ? 10 : 20 * lane;
    for (std::uint64_t i = 0; i < host; ++i) target.record(numbered(i));
    if (is_flushed) target.flush();
    std::vector<event> late;
    for (std::uint64_t i = 0; i < 5; ++i) late.push_back(inserted(900'000 + i, early + i));
    late.push_back(inserted(900'005, host_ns()));
    EXPECT_EQ(target.insert(late), 5u);
    target.record(numbered(host));
    target.close();
    auto const events = read_back(path).events;
    ASSERT_EQ(events.size(), host + 7);
    expect_ascending(events);
    std::vector<std::uint64_t> from_host, from_source;
    for (event const& each : events)
      (each.size < 900'000 ? from_host : from_source).push_back(each.size);
    EXPECT_EQ(from_host, range(0, host + 1));
    EXPECT_EQ(from_source, range(900'000, 900'006));
  }
}

TEST(RecorderInsert, IsLostAfterCloseAndInTheChildOfAFork) {
  temporary_path const path;
  recorder target{path};
  target.hold_back(10);
  target.record(numbered(1));
  pid_t const child = fork();
  if (child == 0) {
    (void)target.insert(std::vector{inserted(7, 0)});
    _exit(target.lost() == 2 ? 0 : 1);  // and the copy of the parent's event
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  target.close();
  EXPECT_EQ(target.insert(std::vector{inserted(2, 0), inserted(3, 0)}), 0u);
  EXPECT_EQ(target.lost(), 2u);
  EXPECT_EQ(numbers_of(read_back(path).events), range(1, 2));
}

TEST(RecorderInsert, WritesWhatIsHeldBackInTheDestructor) {
  temporary_path const path;
  {
    recorder target{path};
    target.hold_back(100'000);
    for (std::uint64_t i = 0; i < 3 * lane; ++i) target.record(numbered(i));
  }
  EXPECT_EQ(numbers_of(read_back(path).events), range(0, 3 * lane));
}

TEST(RecorderInsert, KeepsTheLastEventsOfBothSidesInARing) {
  for (std::uint64_t const limit : {1, 3, 7, 8, 20}) {
    SCOPED_TRACE(limit);
    temporary_path const path;
    recorder target{ring_limit{static_cast<std::size_t>(limit)}, event_clock::steady};
    target.hold_back(1000);
    std::vector<event> source;
    for (std::uint64_t i = 0; i < 10; ++i) {  // even numbers by the host, odd ones elsewhere
      target.record(numbered(2 * i));
      source.push_back(inserted(2 * i + 1, next_ns()));
      (void)next_ns();
      if (i == 3 || i == 8) {
        EXPECT_EQ(target.insert(source), 0u);
        source.clear();
      }
    }
    EXPECT_EQ(target.insert(source), 0u);
    target.save(path);
    auto const events = read_back(path).events;
    // What the ring lost before an insert is not missed: those events are earlier.
    EXPECT_EQ(numbers_of(events), range(20 - std::min<std::uint64_t>(limit, 20), 20));
    EXPECT_EQ(target.lost(), 0u);
  }
}

/// Three threads record while two sources insert batches of the recent past. Nothing may be lost,
/// each thread and source keeps its order, times ascend, and an event that is not late keeps its
/// time.
void run_random_sources(unsigned seed, std::size_t held) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", held " + std::to_string(held));
  temporary_path const path;
  std::map<std::uint32_t, std::vector<event>> done;  // of each source, by its thread
  std::uint64_t late = 0;
  {
    recorder target{path};
    target.hold_back(held);
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; ++number) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 0; i < 3000; ++i) {
          target.record(numbered(i));
          if (i % 50 == 0) std::this_thread::yield();
        }
      });
    }
    std::minstd_rand random{seed};
    std::uint32_t const sources[] = {target.thread("SM 1"), target.thread("SM 2")};
    std::uint64_t last[2] = {host_ns(), host_ns()};
    for (int step = 0; step < 40; ++step) {
      std::size_t const chosen = random() % 2;
      std::uint64_t const now = host_ns();
      std::vector<event> batch;
      for (std::size_t i = random() % 200; i > 0; --i)
        batch.push_back(
            inserted(0, last[chosen] + random() % (now - last[chosen] + 1), sources[chosen]));
      std::sort(batch.begin(), batch.end(),
                [](event const& a, event const& b) { return a.time < b.time; });
      auto& all = done[sources[chosen]];
      for (event& each : batch) each.size = 1'000'000 + all.size(), all.push_back(each);
      late += target.insert(batch);
      last[chosen] = now;
    }
    for (auto& each : threads) each.join();
    EXPECT_EQ(target.lost(), 0u);
  }
  auto const events = read_back(path).events;
  expect_ascending(events);
  std::map<std::uint32_t, std::vector<event>> by_thread;
  for (event const& each : events) by_thread[each.thread].push_back(each);
  ASSERT_EQ(by_thread.size(), 3 + done.size());
  std::uint64_t moved = 0;
  for (auto const& [thread, list] : by_thread) {
    auto const found = done.find(thread);
    if (found == done.end()) {
      EXPECT_EQ(numbers_of(list), range(0, list.size()));
      continue;
    }
    auto const& expected = found->second;
    ASSERT_EQ(numbers_of(list), numbers_of(expected));
    // The trace's epoch is unknown: the least distance, since late events have moved up.
    std::uint64_t epoch = ~std::uint64_t{0};
    for (std::size_t i = 0; i < list.size(); ++i)
      epoch = std::min(epoch, list[i].time - expected[i].time);
    for (std::size_t i = 0; i < list.size(); ++i)
      moved += list[i].time - expected[i].time != epoch ? 1 : 0;
  }
  EXPECT_LE(moved, late);
  if (held > 3 * 3000 + 40 * 200) {
    EXPECT_EQ(late, 0u);
  }
}
TEST(RecorderInsert, KeepsEveryOrderOfRandomSources) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    run_random_sources(seed, 1);
    run_random_sources(seed, 20'000);
  }
}

}  // namespace recorder_insert_test
}  // namespace quarry::test
