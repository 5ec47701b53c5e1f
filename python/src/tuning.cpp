// SPDX-License-Identifier: Apache-2.0
// Tunes pools on traces.
#include "quarry/trace/tune.hpp"

#include "event_buffer.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "sources.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;

/// Empty for `all`: `tune` then knows its candidates.
std::vector<trace::replay_options> candidates_named(std::string const& name) {
  if (name == "all") return {};
  if (name == "2022") return trace::published_candidates(trace::heuristic_rules::poster_2022);
  if (name == "2024") return trace::published_candidates(trace::heuristic_rules::umpire_2024);
  if (name == "published") return trace::published_candidates(trace::heuristic_rules::quarry);
  throw bad_argument{"tune: there are no candidates '" + name +
                     "'; there are all, published, 2022 and 2024"};
}

text_dict dict_of_outcome(trace::tune_outcome const& outcome, trace::tune_result const& tuned) {
  text_dict result = replay_arguments(outcome.options);
  result["separate"] = "";
  result["routing"] = nb::none();
  for (trace::learned_routes const& each : tuned.routes) {
    if (each.table.get() != outcome.options.routing) continue;
    result["separate"] = trace::name_of(each.key);
    result["routing"] = nb::cast(*each.table);
  }
  result["fits"] = outcome.fits;
  result["is_dropped"] = outcome.is_dropped;
  result["is_on_front"] = outcome.is_on_front;
  result["events"] = outcome.events;
  result["peak_reserved"] = outcome.peak_reserved;
  result["coalesces"] = outcome.coalesces;
  result["upstream_allocations"] = outcome.upstream_allocations;
  result["upstream_us"] = outcome.upstream_us;
  result["cost_us"] = outcome.cost_us;
  result["code"] = trace::code_for(outcome.options);
  return result;
}

text_dict run(trace::trace_source const& source, trace::tune_options options,
              progress_reporter& progress) {
  options.progress = [&](std::uint64_t events) { progress.report(events); };
  auto const tuned = trace::tune(source, options);
  held_gil const gil;
  nb::list outcomes;
  for (auto const& outcome : tuned.outcomes) outcomes.append(dict_of_outcome(outcome, tuned));
  text_dict result;
  result["events"] = tuned.events;
  result["peak_allocated"] = tuned.peak_allocated;
  result["recorded_failures"] = tuned.recorded_failures;
  result["peak_with_failures"] = tuned.peak_with_failures;
  result["outcomes"] = outcomes;
  result["best"] =
      tuned.best == tuned.outcomes.size() ? nb::none() : nb::object{nb::int_(tuned.best)};
  result["problems"] = tuned.problems;
  result["problem_count"] = tuned.problem_count;
  return result;
}

class tune_settings {
 public:
  tune_settings(std::string const& candidates, std::string const& goal,
                std::optional<bytes> capacity, double us_per_allocation, double us_per_free,
                double us_per_gib, unsigned threads)
      : options{.candidates = candidates_named(candidates),
                .goal = trace::tune_goal_named(goal),
                .capacity = limit_of(capacity),
                .cost = cost_of(us_per_allocation, us_per_free),
                .us_per_gib = us_per_gib,
                .threads = threads} {}

  trace::tune_options options;
};

}  // namespace

void add_tuning(nb::module_& core) {
  core.attr("default_us_per_gib") = trace::default_us_per_gib;
  trace::upstream_cost const cost;
  core.attr("default_us_per_allocation") = cost.us_per_allocation;
  core.attr("default_us_per_gib_of_blocks") = cost.us_per_gib;
  core.attr("default_us_per_free") = cost.us_per_free;
  nb::class_<tune_settings>(core, "TuneSettings")
      .def(nb::init<std::string, std::string, std::optional<bytes>, double, double, double,
                    unsigned>(),
           nb::kw_only(), "candidates"_a, "goal"_a, "capacity"_a.none(), "us_per_allocation"_a,
           "us_per_free"_a, "us_per_gib"_a, "threads"_a);
  core.def(
      "tune_file",
      [](std::string const& path, std::string const& allocator, tune_settings const& settings,
         nb::object callback) {
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return run(source_of(path, allocator), settings.options, progress);
      },
      "path"_a, "allocator"_a, "settings"_a, "progress"_a = nb::none());
  core.def(
      "tune_events",
      [](record_view bytes, std::vector<std::string> const& call_sites,
         tune_settings const& settings, nb::object callback) {
        auto const events = records_of<event>(bytes);
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return run(source_of(events, call_sites), settings.options, progress);
      },
      "events"_a, "call_sites"_a, "settings"_a, "progress"_a = nb::none());
}

}  // namespace quarry::python
