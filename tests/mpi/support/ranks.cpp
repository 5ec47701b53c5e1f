// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include "support/backends.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/cpu_threads.hpp"
#include "mpi/cpu_world.hpp"
#include "mpi/errors.hpp"
#include "mpi/meeting_place.hpp"
#include "mpi/output.hpp"

#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace quarry::test {
namespace {

/// The program that runs now, for the functions that the runtime calls.
struct running_program {
  std::function<void()> const* body = nullptr;
  mpi::cpu_world* all = nullptr;
  bool detects_deadlocks = false;
};
running_program running;
std::atomic<bool> is_deadlocked{false};

/// ThreadSanitizer needs few interleavings to find a missing order.
#ifdef QUARRY_TEST_UNDER_THREAD_SANITIZER
constexpr std::uint64_t fewer_seeds = 200;
#else
constexpr std::uint64_t fewer_seeds = 20;
#endif

std::uint32_t block_ranks = default_block_ranks;
std::uint64_t complete_meetings = 0;
std::uint32_t passed_messages = 0;

void set_meetings(mpi::meeting_place const& place, std::uint32_t ranks) {
  std::uint32_t const blocks = (ranks + block_ranks - 1) / block_ranks;
  for (std::uint32_t kind = 0; kind < mpi::block_place::kinds; ++kind) {
    place.counters[kind * mpi::seat::counter_stride] = complete_meetings * blocks;
    for (std::uint32_t block = 0; block < blocks; ++block)
      place.blocks[block].expected[kind] = complete_meetings * blocks;
  }
  for (std::uint32_t block = 0; block < blocks; ++block)
    place.blocks[block].meetings = static_cast<std::uint32_t>(complete_meetings);
}

template <class Launch>
program_result run(std::uint32_t ranks, std::function<void()> const& body, bool detects_deadlocks,
                   std::uint64_t heap_bytes, Launch const& launch, std::uint32_t threads = 1) {
  char* no_arguments[] = {nullptr};
  mpi::cpu_world all{{.ranks = ranks,
                      .heap = heap_bytes,
                      .record = sizeof(mpi::record_header),
                      .argc = 0,
                      .argv = no_arguments,
                      .block_ranks = block_ranks,
                      .joins_lanes = true,
                      .threads = threads}};
  set_meetings(all.state().meeting, ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    mpi::mailbox_of(i).initialise(passed_messages);
    mpi::state_of(i).position = {passed_messages, passed_messages};
  }
  running = {&body, &all, detects_deadlocks};
  is_deadlocked = false;
  launch([&all] { all.run_own_rank(); });
  auto const& why = all.state().first_failure;
  program_result const result{all.status(),
                              all.memory().stats().allocations_in_use,
                              is_deadlocked,
                              {why.text, why.text + why.length},
                              all.memory().fault_count(fault_kind::interior_pointer) +
                                  all.memory().fault_count(fault_kind::foreign_pointer) +
                                  all.memory().fault_count(fault_kind::double_free)};
  running = {};
  return result;
}

void expect_success(program_result const& result) {
  EXPECT_FALSE(result.is_deadlocked);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

void run_as_fibers(std::uint32_t ranks, std::function<void()> const& body) {
  for (std::uint64_t const seed : interleavings(fewer_seeds)) {
    SCOPED_TRACE(std::to_string(ranks) + " fibers, seed " + std::to_string(seed));
    expect_success(run_on_fibers(ranks, seed, body));
  }
}

void run_as_threads(std::uint32_t ranks, std::function<void()> const& body) {
  SCOPED_TRACE(std::to_string(ranks) + " threads");
  expect_success(run_on_threads(ranks, body));
}

void run_on_two_threads(std::uint32_t ranks, std::function<void()> const& body) {
  if (ranks < 2) return;
  SCOPED_TRACE(std::to_string(ranks) + " fibers on 2 threads");
  expect_success(run_on_fibers(ranks, {.seed = 1, .threads = 2}, body));
}

}  // namespace

program_result run_on_fibers(std::uint32_t ranks, std::uint64_t seed,
                             std::function<void()> const& body, std::uint64_t heap_bytes) {
  return run(ranks, body, true, heap_bytes, [&](auto const& kernel) {
    simt::launch_fibers({1, ranks}, {.seed = seed, .switches = 64}, kernel);
  });
}

program_result run_on_fibers(std::uint32_t ranks, threads_of_fibers how,
                             std::function<void()> const& body, std::uint64_t heap_bytes) {
  auto const launch = [&](auto const& kernel) {
    mpi::run_on_threads(
        ranks, how.threads,
        [&](simt::lane_part part) {
          simt::launch_fibers(
              {1, ranks}, {.seed = how.seed + part.number, .switches = how.switches, .part = part},
              kernel);
        },
        [] { (void)mpi::begin_abort(1); });
  };
  return run(ranks, body, true, heap_bytes, launch, how.threads);
}

program_result run_on_threads(std::uint32_t ranks, std::function<void()> const& body) {
  return run(ranks, body, false, default_heap_bytes,
             [&](auto const& kernel) { simt::launch_threads({1, ranks}, ranks, kernel); });
}

void run_everywhere(std::uint32_t ranks, std::function<void()> const& body) {
  run_as_fibers(ranks, body);
  run_on_two_threads(ranks, body);
  run_as_threads(ranks, body);
}

void run_in_worlds(std::function<void()> const& body) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) run_as_fibers(ranks, body);
  run_on_two_threads(5, body);
  for (std::uint32_t const ranks : {3, 8}) run_as_threads(ranks, body);
}

void begin_with_blocks_of(std::uint32_t ranks) { block_ranks = ranks; }
void begin_with_meetings(std::uint64_t complete) { complete_meetings = complete; }
void begin_with_messages(std::uint32_t passed) { passed_messages = passed; }

program_result run_failing(std::uint32_t ranks, std::function<void()> const& body) {
  return run_on_fibers(ranks, 1, body);
}

}  // namespace quarry::test

namespace quarry::inline QUARRY_ABI::mpi {

void find_deadlock(std::uint64_t activity) {
  auto& program = test::running;
  if (!program.detects_deadlocks || !program.all->is_stuck(activity)) return;
  test::is_deadlocked = true;
  abort_program(1);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// What quarry-mpicc makes of a program.
extern "C" {

int quarry_mpi_main(int, char**, char**) {
  (*quarry::test::running.body)();
  return 0;
}
void quarry_mpi_init_record(char*) {}
void quarry_mpi_write(std::uint32_t, std::uint8_t, char const*, std::uint64_t) {}
}
