// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/recorder.hpp"

#include "quarry/core/errors.hpp"
#include "trace/record_lane.hpp"
#include "trace/recorded_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace quarry::test {

using namespace trace;
namespace recorder_test {

constexpr std::size_t lane = recorder::buffered_events;

TEST(Recorder, WritesEveryFieldWithTheTimeAndTheThread) {
  temporary_path const path;
  auto const begin = std::chrono::steady_clock::now();
  recorder target{path};
  int stream = 0;
  event const allocation{.address = 0x7f0000001000,
                         .size = 100,
                         .granted = 128,
                         .stream = target.stream(&stream),
                         .allocator = target.allocator("fields"),
                         .call_site = target.call_site("solver"),
                         .kind = event_kind::allocate};
  target.record(allocation);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  target.record({.address = 0x7f0000001000, .size = 100, .kind = event_kind::deallocate});
  target.record({.size = 200, .granted = 50, .kind = event_kind::fail});
  target.close();
  auto const elapsed = std::chrono::nanoseconds{std::chrono::steady_clock::now() - begin}.count();

  auto const [events, names] = read_back(path);
  ASSERT_EQ(events.size(), 3u);
  event expected = allocation;
  expected.time = events[0].time;
  expected.thread = events[0].thread;
  EXPECT_EQ(events[0], expected);
  EXPECT_EQ(names.threads.name(events[0].thread), "thread " + std::to_string(gettid()));
  EXPECT_EQ(names.allocators.name(events[0].allocator), "fields");
  EXPECT_EQ(names.call_sites.name(events[0].call_site), "solver");
  EXPECT_NE(names.streams.name(events[0].stream).find("0x"), std::string::npos);
  EXPECT_EQ(events[2].kind, event_kind::fail);
  EXPECT_EQ(events[2].granted, 50u);
  EXPECT_GE(events[1].time - events[0].time, 19'000'000u);
  EXPECT_LE(events[2].time, static_cast<std::uint64_t>(elapsed));
}

TEST(Recorder, WritesWaitsAndPhases) {
  temporary_path const path;
  recorder target{path};
  int a = 0, b = 0;
  EXPECT_TRUE(target.name_stream(&a, "copies"));
  EXPECT_FALSE(target.name_stream(&a, "kernels"));
  EXPECT_FALSE(target.name_stream(nullptr, "default"));
  target.phase("forward");
  target.wait(&b, &a);
  target.wait(nullptr, &a);
  target.close();
  auto const [events, names] = read_back(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, event_kind::phase);
  EXPECT_EQ(names.call_sites.name(events[0].call_site), "forward");
  EXPECT_EQ(events[1].kind, event_kind::wait);
  EXPECT_EQ(names.streams.name(static_cast<std::uint32_t>(events[1].size)), "copies");
  EXPECT_EQ(events[1].stream, target.stream(&b));
  EXPECT_EQ(events[2].stream, 0u);
}

TEST(Recorder, InternsCallSitesOfScopes) {
  temporary_path const path;
  recorder target{path};
  std::uint32_t const outer = target.call_site("outer");
  EXPECT_EQ(target.call_site("outer"), outer);
  for (int i = 0; i < 3; ++i) {
    call_site_scope const outer_scope{target, outer};
    {
      call_site_scope const inner{target};
      target.record(numbered(1));
    }
    target.record(numbered(2));
    std::thread{[&] { target.record(numbered(3)); }}.join();
    target.record({.call_site = target.call_site("own"), .kind = event_kind::allocate});
  }
  target.record(numbered(4));
  target.close();
  auto const [events, names] = read_back(path);
  ASSERT_EQ(events.size(), 13u);
  EXPECT_NE(names.call_sites.name(events[0].call_site).find("recorder_test.cpp:"),
            std::string::npos);
  EXPECT_EQ(events[0].call_site, events[4].call_site);
  EXPECT_EQ(events[1].call_site, outer);
  EXPECT_EQ(events[2].call_site, 0u);
  EXPECT_EQ(names.call_sites.name(events[3].call_site), "own");
  EXPECT_EQ(events[12].call_site, 0u);
  EXPECT_EQ(names.call_sites.size(), 4u);
}

TEST(Recorder, RefusesWhatItCannotDo) {
  EXPECT_THROW(recorder{"/no/such/folder/a.trace"}, resource_failed);
  EXPECT_THROW((recorder{ring_limit{0}}), bad_argument);
  temporary_path const path, saved;
  recorder file{path};
  EXPECT_THROW(file.save(saved), bad_state);
  recorder ring{ring_limit{10}};
  EXPECT_THROW(ring.save("/no/such/folder/a.trace"), resource_failed);
  ring.flush();
  ring.close();
}

void expect_no_ring(std::size_t events, std::uint64_t size) {
  try {
    recorder const ring{ring_limit{events}};
    ADD_FAILURE() << events;
  } catch (out_of_memory const& failed) {
    EXPECT_EQ(failed.requested(), size);
    EXPECT_EQ(failed.message(), "recorder: ring: no memory for " + std::to_string(size) +
                                    " bytes: set a limit of fewer than " + std::to_string(events) +
                                    " events");
  }
}
TEST(Recorder, NamesTheSizeOfARingThatMemoryCannotHold) {
  expect_no_ring(std::size_t{1} << 62, ~std::uint64_t{0});           // no vector has so many
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the program
  expect_no_ring(std::size_t{1} << 50, sizeof(event) << 50);
#endif
}

TEST(Recorder, CountsEventsAfterCloseAsLost) {
  temporary_path const path;
  recorder target{path};
  target.record(numbered(1));
  target.close();
  for (std::size_t i = 0; i < lane + 1; ++i) target.record(numbered(2));
  EXPECT_GE(target.lost(), lane);
  EXPECT_EQ(read_back(path).events.size(), 1u);
}

TEST(Recorder, WritesTheEventsOfItsDestructor) {
  temporary_path const path;
  {
    recorder{path}.record(numbered(7));
  }
  EXPECT_EQ(numbers_of(read_back(path).events), range(7, 8));
}

TEST(Recorder, KeepsExactlyTheLastEventsInARing) {
  for (std::uint64_t const limit :
       {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{lane}, 3 * std::uint64_t{lane} + 1}) {
    for (std::uint64_t const count : {limit - 1, limit, limit + 1, 2 * limit, 7 * limit + 5}) {
      temporary_path const path;
      recorder target{ring_limit{static_cast<std::size_t>(limit)}};
      for (std::uint64_t i = 0; i < count; ++i) target.record(numbered(i + 1));
      target.save(path);
      auto const expected = range(count > limit ? count - limit + 1 : 1, count + 1);
      EXPECT_EQ(numbers_of(read_back(path).events), expected) << limit << ' ' << count;
      target.record(numbered(count + 1));
      target.save(path);
      EXPECT_EQ(read_back(path).events.back().size, count + 1);
      EXPECT_EQ(target.lost(), 0u);
    }
  }
}

TEST(Recorder, StatesTheBoundOfARing) {
  EXPECT_EQ(ring_limit::of_bytes(1 << 20).events, (1 << 20) / sizeof(event));
  EXPECT_LE(sizeof(record_lane), recorder::buffer_bytes);
}

TEST(Recorder, SavesARingWhileThreadsRecord) {
  temporary_path const path;
  recorder target{ring_limit{1000}};
  std::atomic<bool> is_over{false};
  std::atomic<int> ready{0};
  std::array<std::thread, 3> threads;
  for (auto& each : threads) {
    each = std::thread{[&] {
      for (std::uint64_t i = 1; !is_over || i < 2000; ++i) {
        target.record(numbered(i));
        if (i == 2000) ++ready;
      }
    }};
  }
  while (ready != 3) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    target.save(path);
    auto const events = read_back(path).events;
    EXPECT_EQ(events.size(), 1000u);
    std::map<std::uint32_t, std::uint64_t> last;
    for (event const& each : events) {
      std::uint64_t& before = last[each.thread];
      if (before != 0) {
        EXPECT_EQ(each.size, before + 1);
      }
      before = each.size;
    }
  }
  is_over = true;
  for (auto& each : threads) each.join();
}

/// Threads pass blocks to each other through a list, as through an allocator. Each event must be in
/// the file, in the order of its thread, and no address may be live twice.
void run_random_threads(unsigned seed, event_clock clock) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  temporary_path const path;
  constexpr unsigned thread_count = 4, rounds = 3;
  constexpr int steps = 3000;
  std::array<std::vector<event>, thread_count * rounds> done;  // what each thread recorded
  {
    recorder target{path, clock};
    std::mutex mutex;
    std::vector<std::uint64_t> unused;  // Guarded by: mutex; the last one freed is used first
    std::vector<event> shared;          // Guarded by: mutex; live, to be freed by any thread
    for (std::uint64_t i = 1; i <= 40; ++i) unused.push_back(i * 64);
    auto const work = [&](unsigned number) {
      std::minstd_rand random{seed * 100 + number};
      auto const record = [&](event const& each) {
        target.record(each);
        done[number].push_back(each);
      };
      for (int i = 0; i < steps; ++i) {
        std::optional<event> freed;
        std::optional<std::uint64_t> address;
        {
          std::lock_guard const lock{mutex};
          bool const frees = random() % 2 == 0;
          if (frees && !shared.empty()) {
            std::swap(shared[random() % shared.size()], shared.back());
            freed = shared.back();
            shared.pop_back();
          } else if (!frees && !unused.empty()) {
            address = unused.back();
            unused.pop_back();
          }
        }
        if (freed) {
          freed->kind = event_kind::deallocate;
          record(*freed);  // before the call that frees
          std::lock_guard const lock{mutex};
          unused.push_back(freed->address);
        } else if (address) {
          event const made{.address = *address,
                           .size = 1 + random() % 1000,
                           .stream = target.stream(reinterpret_cast<void*>(random() % 20 * 8)),
                           .kind = event_kind::allocate};
          record(made);  // after the call that allocates
          std::lock_guard const lock{mutex};
          shared.push_back(made);
        }
      }
    };
    for (unsigned round = 0; round < rounds; ++round) {
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < thread_count; ++i)
        threads.emplace_back(work, round * thread_count + i);
      for (auto& each : threads) each.join();
    }
    target.record({.kind = event_kind::phase});  // so that this thread has an event, too
    for (event each : shared) {
      each.kind = event_kind::deallocate;
      target.record(each);
    }
    EXPECT_EQ(target.lost(), 0u);
  }
  auto const events = read_back(path).events;
  expect_replayable(events);
  std::map<std::uint32_t, std::vector<event>> by_thread;
  for (event each : events) {
    auto& list = by_thread[each.thread];
    each.thread = 0;
    each.time = 0;
    list.push_back(each);
  }
  ASSERT_EQ(by_thread.size(), done.size() + 1);  // and the thread of the test
  for (auto const& expected : done) {
    auto const is_same = [&](auto const& entry) { return entry.second == expected; };
    EXPECT_EQ(std::count_if(by_thread.begin(), by_thread.end(), is_same), 1);
  }
}
TEST(Recorder, KeepsTheOrderOfRandomThreads) {
  for (unsigned seed = 1; seed <= 8; ++seed) run_random_threads(seed, event_clock::fastest);
}
TEST(Recorder, KeepsTheOrderOfRandomThreadsByTheSteadyClock) {
  for (unsigned seed = 1; seed <= 2; ++seed) run_random_threads(seed, event_clock::steady);
}

TEST(Recorder, MergesTheBuffersOfManyThreadsByTime) {
  temporary_path const path;
  constexpr std::uint64_t turns = 20 * lane / 7;
  {
    recorder target{path};
    std::atomic<std::uint64_t> turn{0};
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < 7; ++number) {
      threads.emplace_back([&, number] {
        for (std::uint64_t i = number; i < turns; i += 7) {
          while (turn != i) std::this_thread::yield();
          target.record(numbered(i));
          turn = i + 1;
        }
      });
    }
    for (auto& each : threads) each.join();
  }
  EXPECT_EQ(numbers_of(read_back(path).events), range(0, turns));
}

/// Two threads take turns while a third thread drains all buffers again and again. Between the
/// buffers of the two lie those of idle threads, so that a drain reads the two at different times.
/// It must not take an event without the events that happened before it.
TEST(Recorder, DrainsNoEventWithoutTheEventsBefore) {
  temporary_path const path;
  constexpr std::uint64_t turns = 4'000;
  recorder target{ring_limit{turns}};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> idle;
  auto const add_idle_threads = [&] {
    for (int i = 0; i < 30; ++i) {
      std::atomic<bool> is_ready{false};
      idle.emplace_back([&] {
        {
          call_site_scope const scope{target, 0};
        }  // makes a buffer
        is_ready = true;
        is_over.wait(false);
      });
      while (!is_ready) std::this_thread::yield();
    }
  };
  std::atomic<std::uint64_t> turn{0};
  auto const take_turns = [&](std::uint64_t parity) {
    for (std::uint64_t i = parity; i < turns; i += 2) {
      for (int spins = 0; turn != i; ++spins) {
        if (spins > 100) std::this_thread::yield();
      }
      target.record(numbered(i));
      turn = i + 1;
    }
  };
  std::thread even{[&] { take_turns(0); }};
  while (turn != 1) std::this_thread::yield();
  add_idle_threads();
  std::thread odd{[&] { take_turns(1); }};
  while (turn != turns) target.flush();
  even.join();
  odd.join();
  is_over = true;
  is_over.notify_all();
  for (auto& each : idle) each.join();
  target.save(path);
  EXPECT_EQ(numbers_of(read_back(path).events), range(0, turns));
}

/// One thread stays; others come, take turns with it, and end. With one thread left, events need no
/// fence; the order must hold when this changes, too.
TEST(Recorder, KeepsTheOrderOfThreadsThatComeAndGo) {
  temporary_path const path;
  std::atomic<std::uint64_t> turn{0};
  recorder target{path};
  std::minstd_rand random{1};
  auto const record_next = [&] {
    target.record(numbered(turn));
    ++turn;
  };
  for (int round = 0; round < 60; ++round) {
    std::uint64_t const begin = turn, shared = random() % 300;
    std::thread other{[&] {
      for (std::uint64_t i = begin + 1; i < begin + shared; i += 2) {
        while (turn != i) std::this_thread::yield();
        record_next();
      }
    }};
    for (std::uint64_t i = begin; i < begin + shared; i += 2) {
      while (turn != i) std::this_thread::yield();
      record_next();
    }
    other.join();
    for (std::uint64_t alone = random() % (3 * lane); alone > 0; --alone) record_next();
    if (random() % 2 == 0) target.flush();
  }
  target.close();
  EXPECT_EQ(numbers_of(read_back(path).events), range(0, turn));
}

TEST(Recorder, ServesTwoRecordersAtOnce) {
  temporary_path const paths[6];
  {
    std::vector<std::unique_ptr<recorder>> targets;
    for (auto const& path : paths) targets.push_back(std::make_unique<recorder>(path));
    auto const work = [&] {
      for (std::uint64_t i = 0; i < 5000; ++i) targets[i % 6]->record(numbered(i / 6));
    };
    std::thread other{work};
    work();
    other.join();
  }
  for (auto const& path : paths) {
    auto const events = read_back(path).events;
    std::map<std::uint32_t, std::vector<event>> by_thread;
    for (event const& each : events) by_thread[each.thread].push_back(each);
    ASSERT_EQ(by_thread.size(), 2u);
    for (auto const& [thread, list] : by_thread) EXPECT_EQ(numbers_of(list), range(0, list.size()));
  }
}

TEST(Recorder, MayEndBeforeTheThreadsThatUsedIt) {
  temporary_path const path, next_path;
  auto target = std::make_unique<recorder>(path);
  std::atomic<int> step{0};
  std::thread thread{[&] {
    target->record(numbered(1));
    step = 1;
    while (step != 2) std::this_thread::yield();
    recorder next{next_path};
    next.record(numbered(2));
  }};
  while (step != 1) std::this_thread::yield();
  target.reset();
  step = 2;
  thread.join();
  EXPECT_EQ(numbers_of(read_back(path).events), range(1, 2));
  EXPECT_EQ(numbers_of(read_back(next_path).events), range(2, 3));
}

/// Records in a destructor that runs after that of the recorder's own object in the thread.
struct records_at_the_end {
  recorder* target = nullptr;
  std::uint64_t count = 0;
  ~records_at_the_end() {
    for (std::uint64_t i = 0; i < count; ++i) target->record(numbered(1000 + i));
  }
};
TEST(Recorder, RecordsWhileAThreadEnds) {
  temporary_path const path;
  constexpr std::uint64_t late = 2 * lane + 3;
  {
    recorder target{path};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        thread_local records_at_the_end ender;  // constructed before the lane, so destroyed later
        ender.target = &target;
        ender.count = late;
        target.record(numbered(999));
      });
    }
    for (auto& each : threads) each.join();
  }
  std::map<std::uint32_t, std::vector<event>> by_thread;
  for (event const& each : read_back(path).events) by_thread[each.thread].push_back(each);
  ASSERT_EQ(by_thread.size(), 3u);
  for (auto const& [thread, list] : by_thread) EXPECT_EQ(numbers_of(list), range(999, 1000 + late));
}

TEST(Recorder, ReusesTheBuffersOfThreadsThatEnded) {
  temporary_path const path;
  {
    recorder target{path};
    for (std::uint64_t i = 0; i < 300; ++i) {
      std::thread{[&] { target.record(numbered(i)); }}.join();
      if (i % 50 == 0) target.flush();
    }
  }
  auto const events = read_back(path).events;
  EXPECT_EQ(numbers_of(events), range(0, 300));
  EXPECT_NE(events[0].thread, events[299].thread);
}

}  // namespace recorder_test
}  // namespace quarry::test
