// SPDX-License-Identifier: Apache-2.0
// Recorders when the disk is full, in the children of forks, and when the program ends.
#include "quarry/core/errors.hpp"
#include "quarry/trace/recorder.hpp"
#include "trace/recorded_file.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

namespace quarry::test {

using namespace trace;
namespace recorder_processes_test {

constexpr std::size_t lane = recorder::buffered_events;

TEST(RecorderProcesses, ReportsAFullDiskAndCountsWhatIsLost) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  // The file's header does not fit either, so the error is known at once.
  EXPECT_THROW(recorder{"/dev/full"}, resource_failed);

  // A file that becomes full later: its size is limited.
  temporary_path const path;
  auto const record_in_a_child = [&]() -> int {
    rlimit const limit{100'000, 100'000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    std::signal(SIGXFSZ, SIG_IGN);
    recorder target{path};
    constexpr std::uint64_t count = 100'000;
    for (std::uint64_t i = 0; i < count; ++i) target.record(numbered(i));
    try {
      target.flush();
      return 3;
    } catch (resource_failed const& failure) {
      if (std::string{failure.what()}.find("events are lost") == std::string::npos) return 4;
    }
    std::uint64_t const lost = target.lost();
    if (lost == 0 || lost >= count) return 5;
    auto const source = open_trace(path);
    std::vector<event> part(1000);
    std::uint64_t found = 0;
    while (std::size_t const got = source->read(part)) found += got;
    if (source->problem_count() == 0) return 6;  // the chunk that was cut
    return found + lost == count ? 0 : 7;
  };
  pid_t const child = fork();
  if (child == 0) _exit(record_in_a_child());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RecorderProcesses, LeavesTheFileToTheParentOfAFork) {
  temporary_path const path;
  recorder target{path};
  std::atomic<bool> is_over{false};
  std::uint64_t recorded_by_the_thread = 0;
  std::thread thread{[&] {  // so that forks meet a recorder at work
    for (; !is_over; ++recorded_by_the_thread) target.record(numbered(0));
  }};
  for (std::uint64_t i = 1; i <= 20; ++i) {
    target.record(numbered(i));
    pid_t const child = fork();
    if (child == 0) {
      alarm(20);
      for (std::uint64_t k = 0; k < 20 * lane; ++k) target.record(numbered(77));
      bool is_refused = false;
      try {
        target.flush();
      } catch (bad_state const&) {
        is_refused = true;
      }
      std::fflush(nullptr);  // as the end of a program does
      _exit(is_refused && target.lost() >= 19 * lane ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  is_over = true;
  thread.join();
  target.close();
  EXPECT_EQ(target.lost(), 0u);
  auto events = read_back(path).events;
  EXPECT_EQ(events.size(), 20 + recorded_by_the_thread);
  std::erase_if(events, [](event const& each) { return each.size == 0; });
  EXPECT_EQ(numbers_of(events), range(1, 21));
}

TEST(RecorderProcesses, LeavesTheFileToTheParentWhenTheChildDestroysTheRecorder) {
  temporary_path const path;
  auto target = std::make_unique<recorder>(path);
  target->record(numbered(1));
  pid_t const child = fork();
  if (child == 0) {
    target->record(numbered(77));
    target.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  target->record(numbered(2));
  target.reset();
  EXPECT_EQ(numbers_of(read_back(path).events), range(1, 3));
}

TEST(RecorderProcesses, ContinuesARingInTheChildOfAFork) {
  temporary_path const path;
  recorder target{ring_limit{3}};
  for (std::uint64_t i = 1; i <= 3; ++i) target.record(numbered(i));
  pid_t const child = fork();
  if (child == 0) {
    target.record(numbered(4));
    target.save(path);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(numbers_of(read_back(path).events), range(2, 5));
}

/// Outlives the destructors of the main thread's objects.
struct records_at_exit {
  std::unique_ptr<recorder> target;
  ~records_at_exit() {
    if (target == nullptr) return;
    target->record(numbered(3));
    target.reset();
  }
};
records_at_exit at_exit;

TEST(RecorderProcesses, RecordsFromStaticDestructors) {
  temporary_path const path;
  pid_t const child = fork();
  if (child == 0) {
    at_exit.target = std::make_unique<recorder>(path);
    at_exit.target->record(numbered(2));
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  auto const events = read_back(path).events;
  EXPECT_EQ(numbers_of(events), range(2, 4));
  EXPECT_EQ(events[0].thread, events[1].thread);
}

}  // namespace recorder_processes_test
}  // namespace quarry::test
