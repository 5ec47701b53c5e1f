// SPDX-License-Identifier: Apache-2.0
// How often do the published heuristics coalesce on a trace, and how much memory do they reserve?
//
// This is Fig. 1 of the poster (Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing
// Heuristics to Improve Memory Performance", 2022), for a trace of the poster's shape
// (tests/host/pools/simulation_trace.hpp) and for the four traces of data/. `rules` are those of
// the poster, of Umpire's release of 2024-10, or Quarry's. That release cannot coalesce before
// growth, so it has 14 settings, not 19. `coalesces` and `peak` (reserved bytes) are counted.
// `upstream` is the modelled time of the calls for blocks. The allocator `in use` is the peak of
// the requested bytes. The rules `tuned` have one setting: the best that `tune` finds. Nothing is
// timed.
#include "harness.hpp"

#include "host/pools/simulation_trace.hpp"
#include "quarry/trace.hpp"

#include <filesystem>
#include <fstream>

namespace {

using namespace quarry::trace;

/// A trace file and the name of the trace in the records.
struct traced_file {
  std::string name, path;
};

bench::parameters params_of(std::string const& trace, char const* rules,
                            std::string const& allocator) {
  return bench::parameters{}.add("trace", trace).add("rules", rules).add("allocator", allocator);
}

/// Prints a count with all its digits.
void record_count(char const* quantity, bench::parameters const& params, std::uint64_t value,
                  char const* unit) {
  bench::print_record(std::string{"trace/heuristic/"} + quantity, params, std::to_string(value),
                      unit);
}

void record_outcome(bench::parameters const& params, tune_outcome const& outcome) {
  record_count("coalesces", params, outcome.coalesces, "coalesces");
  record_count("peak", params, outcome.peak_reserved, "B");
  bench::record("trace/heuristic/upstream",
                bench::parameters{params}.add("us_per_gib", default_us_per_gib),
                outcome.upstream_us, "us");
}

tune_result tuned(std::string const& path, tune_options const& options) {
  return tune([&] { return open_trace(path); }, options);
}

void measure_published(traced_file const& trace, char const* rules_name, heuristic_rules rules) {
  auto const found =
      tuned(trace.path, {.candidates = published_candidates(rules), .goal = tune_goal::all});
  for (tune_outcome const& outcome : found.outcomes) {
    quarry::heuristic const rule = outcome.options.pool.coalesce;
    bool const is_before_growth = rule.checked_at == quarry::heuristic::moment::before_growth;
    if (rules == heuristic_rules::umpire_2024 && is_before_growth) continue;
    record_outcome(params_of(trace.name, rules_name, name_of(rule)), outcome);
  }
}

void measure_tuned(traced_file const& trace) {
  auto const found = tuned(trace.path, {});
  record_count("peak", params_of(trace.name, "none", "in use"), found.peak_allocated, "B");
  tune_outcome const& best = found.outcomes.at(found.best);
  auto const& pool = best.options.pool;
  auto params = params_of(trace.name, "tuned", "tuned");
  params.add("strategy", name_of(best.options.placement))
      .add("heuristic", name_of(pool.coalesce))
      .add("first_block", pool.first_block)
      .add("next_block", pool.next_block)
      .add("growth_percent", pool.growth_percent);
  record_outcome(params, best);
}

/// Writes the trace of the poster's shape as a text file.
void write_simulation(std::string const& path) {
  std::ofstream file{path};
  quarry::test::simulation_trace const trace{80, 1};
  for (auto const& step : trace.steps()) {
    if (step.is_allocation) {
      file << "a " << step.id << ' ' << step.size << '\n';
    } else {
      file << "f " << step.id << '\n';
    }
  }
  file.close();
  if (!file) throw quarry::bad_argument{path + ": the file was not written"};
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  std::string const simulation =
      std::filesystem::temp_directory_path() / "trace_heuristics_bench.txt";
  write_simulation(simulation);
  std::vector<traced_file> traces{{"simulation", simulation}};
  for (std::string const name : {"gpt", "resnet", "kvcache", "gnn"})
    traces.push_back({name, std::string{QUARRY_DATA} + '/' + name + ".pickle.gz"});
  for (traced_file const& trace : traces) {
    measure_published(trace, "2022", heuristic_rules::poster_2022);
    measure_published(trace, "2024", heuristic_rules::umpire_2024);
    measure_published(trace, "quarry", heuristic_rules::quarry);
    measure_tuned(trace);
  }
  std::filesystem::remove(simulation);
}
