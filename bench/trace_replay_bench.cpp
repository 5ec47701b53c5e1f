// SPDX-License-Identifier: Apache-2.0
// How many events a second do traces replay?
//
// Each of the four traces of data/ is replayed again and again, about ten million events in all, in
// one pool on simulated memory, on one thread. `replay`: the events are in memory. `file`: they are
// read from a file in Quarry's format, which is in the page cache; `write` and `read` are that
// file's costs alone. `tune`: all settings at once, none of them dropped, on all processors; the
// value counts the events of each setting, and the time is elapsed time. The others use the
// processor time of their thread.
// `bytes`: of the file, for each event.
#include "harness.hpp"

#include "quarry/trace.hpp"

#include <filesystem>

namespace {

using namespace quarry::trace;

constexpr std::size_t events_in_all = 10'000'000;
constexpr int runs = 5;

struct loaded {
  std::string name;
  std::vector<event> events;
  name_tables names;
  std::size_t rounds;  // until there are `events_in_all`
};

loaded load(std::string const& name) {
  auto const trace = open_trace(std::string{QUARRY_DATA} + '/' + name + ".pickle.gz");
  std::vector<event> events, batch(4096);
  while (std::size_t const count = trace->read(batch))
    events.insert(events.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
  std::size_t const rounds = events_in_all / events.size();
  return {name, std::move(events), trace->names(), rounds};
}

/// Seconds of the clock on the wall, or of this thread on a processor.
double seconds(bool is_on_wall) {
  timespec now{};
  clock_gettime(is_on_wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Records millions of events a second of `work`, which handles `count` events.
template <class Work>
void measure(std::string const& name, bench::parameters const& params, std::size_t count,
             Work const& work, bool is_on_wall = false) {
  std::vector<double> rates;
  for (int run = 0; run < runs; ++run) {
    double const begin = seconds(is_on_wall);
    work();
    rates.push_back(1e-6 * static_cast<double>(count) / (seconds(is_on_wall) - begin));
  }
  bench::record_spread(name, params, rates, "million events/s");
}

void measure(loaded const& trace, std::string const& file) {
  auto const params = [&] {
    return bench::parameters{}.add("allocator", "quarry").add("trace", trace.name);
  };
  std::size_t const count = trace.rounds * trace.events.size();
  for (strategy const each : {strategy::fast_fit, strategy::lowest_best_fit, strategy::stitched}) {
    measure("trace/replay", params().add("strategy", name_of(each)), count, [&] {
      replayer memory{{.placement = each}};
      for (std::size_t round = 0; round < trace.rounds; ++round) memory.add(trace.events);
    });
  }
  measure("trace/write", params(), count, [&] {
    file_writer writer{file};
    for (std::size_t round = 0; round < trace.rounds; ++round)
      writer.add(trace.events, trace.names);
    writer.close();
  });
  bench::record("trace/bytes", params(),
                static_cast<double>(std::filesystem::file_size(file)) / static_cast<double>(count),
                "B");
  measure("trace/read", params(), count, [&] {
    auto const reader = open_trace(file);
    std::vector<event> batch(4096);
    while (reader->read(batch) != 0) {
    }
  });
  measure("trace/file", params().add("strategy", name_of(replay_options{}.placement)), count, [&] {
    auto const reader = open_trace(file);
    (void)replay(*reader, {});
  });
  auto const settings = all_candidates();
  std::string const recorded = std::string{QUARRY_DATA} + '/' + trace.name + ".pickle.gz";
  measure(
      "trace/tune", params(), trace.events.size() * settings.size(),
      [&] {
        (void)tune([&] { return open_trace(recorded); },
                   {.candidates = settings, .goal = tune_goal::all});
      },
      true);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  std::string const file = std::filesystem::temp_directory_path() / "trace_replay_bench.qtrace";
  for (char const* const name : {"gpt", "resnet", "kvcache", "gnn"}) measure(load(name), file);
  std::filesystem::remove(file);
}
