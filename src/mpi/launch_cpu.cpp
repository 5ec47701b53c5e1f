// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as fibers on one thread.
#include "launcher.hpp"
#include "mailbox.hpp"
#include "meeting.hpp"
#include "rank.hpp"

#include "quarry/device/heap.hpp"
#include "quarry/simt/launch.hpp"

#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <memory>

quarry::mpi::launch_layout quarry_mpi_layout;
extern "C" std::uint64_t const quarry_mpi_record_bytes;
extern "C" char const quarry_mpi_cpu_places[], quarry_mpi_cpu_places_end[];

extern "C" void* quarry_mpi_record() { return &quarry::mpi::own_record(); }

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

line_writer* writer = nullptr;

[[noreturn]] void end_process(int code) {
  writer->finish();
  _exit(code);
}

}  // namespace

/// Ends the program if no rank can continue: each has looked for its message since anything
/// happened.
void find_deadlock(std::uint64_t activity) {
  rank_state const* const states = layout().ranks;
  for (std::uint32_t i = 0; i < layout().size; ++i)
    if (states[i].stage != life::done && states[i].polled_at != activity) return;
  if (the_world().activity != activity) return;
  std::vector<rank_state> const ranks(states, states + layout().size);
  auto const places = places_of(quarry_mpi_cpu_places, quarry_mpi_cpu_places_end);
  std::fprintf(stderr, "quarry-mpirun: deadlock: no rank can continue\n%s",
               describe_waits(ranks, places).c_str());
  end_process(status_of_deadlock(ranks));
}

int run_on_cpu(launch_options const& asked, int argc, char** argv) {
  line_writer lines{asked.ranks};
  writer = &lines;
  heap const memory{
      {.bytes = asked.heap != 0 ? asked.heap : bytes{1} << 30, .backend_kind = backend::cpu}};
  bytes const record_bytes = quarry_mpi_record_bytes;
  std::unique_ptr<char, decltype(&std::free)> const records{
      static_cast<char*>(
          std::aligned_alloc(4096, (record_bytes * asked.ranks + 4095) / 4096 * 4096)),
      &std::free};
  if (records == nullptr)
    throw out_of_memory{"the ranks' global variables", record_bytes * asked.ranks,
                        "the host has no memory"};
  std::memset(records.get(), 0, record_bytes * asked.ranks);
  std::vector<rank_state> ranks(asked.ranks);
  world all{};
  all.all = {asked.ranks, 0, nullptr, asked.ranks};
  all.next_context = 4;
  std::vector<std::uint32_t> counters(meeting::nodes_for(asked.ranks));
  std::vector<char> parts((asked.ranks + counters.size() + 2) * meeting::part_bytes);
  all.meeting = {counters.data(), parts.data(),
                 parts.data() + (asked.ranks + counters.size()) * meeting::part_bytes, 0};
  all.argc = argc;
  all.argv = argv;
  all.environment = environ;
  all.start_ns = host_clock_ns();
  quarry_mpi_layout = {records.get(), record_bytes, 0, asked.ranks, &all, ranks.data(), {}};
  quarry_mpi_layout.set_heap(memory.ref());
  for (std::uint32_t i = 0; i < asked.ranks; ++i) {
    mailbox::initialise(ranks[i]);
    ranks[i].rank = i;
    ranks[i].polled_at = ~std::uint64_t{0};
  }
  std::uint32_t const threads = asked.ranks < 256 ? asked.ranks : 256;
  simt::fiber_schedule schedule{.seed = asked.seed + 1, .switches = asked.seed == 0 ? 0u : 64u};
  simt::launch_fibers({(asked.ranks + threads - 1) / threads, threads}, schedule, [&] {
    std::uint32_t const rank = own_rank();
    if (rank < asked.ranks) run_rank(rank);
  });
  lines.finish();
  if (all.aborted == 2) throw out_of_memory{"the ranks", asked.heap, "run with a larger --heap"};
  if (all.aborted != 0) return all.abort_code;
  for (auto const& rank : ranks)
    if (rank.exit_code != 0) return rank.exit_code;
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" void quarry_mpi_write(std::uint32_t rank, std::uint8_t stream, char const* text,
                                 std::uint64_t length) {
  quarry::mpi::writer->add(rank, stream, text, length);
}
