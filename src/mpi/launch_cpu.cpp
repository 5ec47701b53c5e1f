// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as fibers on one thread.
#include "cpu_world.hpp"
#include "launcher.hpp"

#include "quarry/simt/launch.hpp"

#include <unistd.h>
#include <cstdio>

extern "C" std::uint64_t const quarry_mpi_record_bytes;
extern "C" char const quarry_mpi_cpu_places[], quarry_mpi_cpu_places_end[];

extern "C" void* quarry_mpi_record() { return &quarry::mpi::own_record(); }

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

line_writer* writer = nullptr;
cpu_world* running = nullptr;

std::vector<std::string> places() {
  return places_of(quarry_mpi_cpu_places, quarry_mpi_cpu_places_end);
}

[[noreturn]] void end_process(int code) {
  writer->finish();
  _exit(code);
}

}  // namespace

/// Ends the program if no rank can continue: each has looked for its message since anything
/// happened.
void find_deadlock(std::uint64_t activity) {
  if (!running->is_stuck(activity)) return;
  std::fprintf(stderr, "quarry-mpirun: deadlock: no rank can continue\n%s",
               describe_waits(running->ranks(), places()).c_str());
  end_process(status_of_deadlock(running->ranks()));
}

int run_on_cpu(launch_options const& asked, int argc, char** argv) {
  line_writer lines{asked.ranks};
  writer = &lines;
  cpu_world all{{asked.ranks, asked.heap, quarry_mpi_record_bytes, argc, argv}};
  running = &all;
  std::uint32_t const threads = asked.ranks < 256 ? asked.ranks : 256;
  simt::fiber_schedule schedule{.seed = asked.seed + 1, .switches = asked.seed == 0 ? 0u : 64u};
  simt::launch_fibers({(asked.ranks + threads - 1) / threads, threads}, schedule,
                      [&] { all.run_own_rank(); });
  lines.finish();
  std::fputs(describe_failure(all.state().first_failure, places()).c_str(), stderr);
  return all.status();
}

}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" void quarry_mpi_write(std::uint32_t rank, std::uint8_t stream, char const* text,
                                 std::uint64_t length) {
  quarry::mpi::writer->add(rank, stream, text, length);
}
