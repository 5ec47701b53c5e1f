// SPDX-License-Identifier: Apache-2.0
// Tunes pools on traces.
#include "quarry/trace/tune.hpp"

#include "array_reader.hpp"
#include "event_buffer.hpp"
#include "options.hpp"
#include "problems.hpp"
#include "progress.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;

std::vector<trace::replay_options> candidates_named(std::string const& name, bytes peak) {
  if (name == "all") return trace::all_candidates();
  if (name == "sized") return trace::sized_candidates(peak);
  if (name == "2022") return trace::published_candidates(heuristic_rules::poster_2022);
  if (name == "2024") return trace::published_candidates(heuristic_rules::umpire_2024);
  if (name == "published") return trace::published_candidates(heuristic_rules::quarry);
  throw bad_argument{"tune: there are no candidates '" + name +
                     "'; there are all, published, 2022 and 2024"};
}

text_dict dict_of(trace::tune_outcome const& outcome) {
  text_dict result = replay_arguments(outcome.options);
  result["fits"] = outcome.fits;
  result["peak_reserved"] = outcome.peak_reserved;
  result["coalesces"] = outcome.coalesces;
  result["upstream_allocations"] = outcome.upstream_allocations;
  result["upstream_us"] = outcome.upstream_us;
  result["cost_us"] = outcome.cost_us;
  result["code"] = trace::code_for(outcome.options);
  return result;
}

text_dict run(trace::reader& source, trace::tune_options options, progress_reporter& progress) {
  options.progress = [&](std::uint64_t events) { progress.report(events); };
  auto const tuned = trace::tune(source, options);
  progress.report(tuned.events);
  nb::gil_scoped_acquire const gil;
  nb::list outcomes;
  for (auto const& outcome : tuned.outcomes) outcomes.append(dict_of(outcome));
  text_dict result;
  result["events"] = tuned.events;
  result["peak_allocated"] = tuned.peak_allocated;
  result["outcomes"] = outcomes;
  return result;
}

class tune_settings {
 public:
  tune_settings(std::string const& candidates, bytes peak, std::optional<bytes> capacity,
                double us_per_allocation, double us_per_free, double us_per_gib, unsigned threads)
      : options{.candidates = candidates_named(candidates, peak),
                .capacity = limit_of(capacity),
                .cost = cost_of(us_per_allocation, us_per_free),
                .us_per_gib = us_per_gib,
                .threads = threads} {}

  trace::tune_options options;
};

}  // namespace

void add_tuning(nb::module_& core) {
  core.attr("default_us_per_gib") = trace::default_us_per_gib;
  nb::class_<tune_settings>(core, "TuneSettings")
      .def(nb::init<std::string, bytes, std::optional<bytes>, double, double, double, unsigned>(),
           nb::kw_only(), "candidates"_a, "peak"_a, "capacity"_a.none(), "us_per_allocation"_a,
           "us_per_free"_a, "us_per_gib"_a, "threads"_a)
      .def_prop_ro("candidates", [](tune_settings const& settings) {
        return settings.options.candidates.size();
      });
  core.def(
      "tune_file",
      [](std::string const& path, tune_settings const& settings, nb::object callback) {
        nb::gil_scoped_release const no_gil;
        progress_reporter progress{std::move(callback)};
        auto const source = trace::open_trace(path);
        nb::dict result = run(*source, settings.options, progress);
        nb::gil_scoped_acquire const gil;
        add_problems(result, *source);
        return result;
      },
      "path"_a, "settings"_a, "progress"_a = nb::none());
  core.def(
      "tune_events",
      [](record_view bytes, tune_settings const& settings, nb::object callback) {
        auto const events = records_of<event>(bytes);
        nb::gil_scoped_release const no_gil;
        progress_reporter progress{std::move(callback)};
        array_reader source{events};
        return run(source, settings.options, progress);
      },
      "events"_a, "settings"_a, "progress"_a = nb::none());
}

}  // namespace quarry::python
