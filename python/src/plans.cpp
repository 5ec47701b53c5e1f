// SPDX-License-Identifier: Apache-2.0
// Plans: where each allocation of a repeating program lies.
#include "quarry/trace/plan.hpp"
#include "quarry/trace/select_allocator.hpp"

#include "array_reader.hpp"
#include "event_buffer.hpp"
#include "plain_class.hpp"
#include "progress.hpp"

#include <nanobind/stl/filesystem.h>
#include <algorithm>

namespace quarry::python {
namespace {

using namespace nb::literals;

/// Reads another trace, and reports how many events are read.
class reporting_reader final : public trace::reader {
 public:
  reporting_reader(trace::reader& source, progress_reporter& progress)
      : source_{source}, progress_{progress} {}
  [[nodiscard]] std::size_t read(std::span<trace::event> target) override {
    std::size_t const count = source_.read(target);
    progress_.add(count);
    return count;
  }
  [[nodiscard]] trace::format file_format() const override { return source_.file_format(); }

 private:
  trace::reader& source_;
  progress_reporter& progress_;
};

plan make_plan(trace::reader& source, trace::plan_options options, progress_reporter& progress) {
  reporting_reader reporting{source, progress};
  options.progress = [&](std::uint64_t) { progress.report(); };
  plan result = trace::make_plan(reporting, options);
  progress.report();
  return result;
}

std::uint64_t planned_allocations(plan const& value) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      value.allocations,
      [](planned_allocation const& each) { return each.offset != not_planned; }));
}

}  // namespace

void add_plans(nb::module_& core) {
  plain_class<plan>{core, "Plan", "Where each allocation of a program lies in one range of memory."}
      .add("bytes", &plan::size, "The size of the range.")
      .add("lower_bound", &plan::lower_bound, "The peak of the planned allocations in bytes.")
      .add("method", &plan::method, "How the allocations were placed.")
      .add("alignment", &plan::alignment, "The alignment of all places in bytes.")
      .add(
          "allocations", [](plan const& value) { return value.allocations.size(); },
          "The number of allocations.")
      .add("planned_allocations", planned_allocations, "Allocations that have a place.")
      .add("period_begin", &plan::period_begin, "The first allocation that repeats.")
      .add(
          "period", [](plan const& value) { return value.allocations.size() - value.period_begin; },
          "Allocations in one repetition; 0 if nothing repeats.")
      .add_method(
          "save",
          [](plan const& value, std::filesystem::path const& path) { save(value, path.string()); },
          "path"_a, without_gil{}, nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Writes a file for `load_plan` and for C++ programs.")
      .add_method("__len__", [](plan const& value) { return value.allocations.size(); })
      .add_method(
          "__eq__", [](plan const& value, plan const& other) { return value == other; },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  core.def(
      "load_plan", [](std::filesystem::path const& path) { return load_plan(path.string()); },
      "path"_a, without_gil{}, nb::sig("def load_plan(path: str | os.PathLike[str]) -> Plan"),
      "Reads a plan that `Plan.save` wrote. Raises BadPlan if the file is not a plan or is "
      "damaged.");
  core.def(
      "plan_file",
      [](std::string const& path, std::string const& allocator, bytes alignment, bool finds_period,
         std::uint64_t max_steps, std::uint64_t seed, nb::object callback) {
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        auto const source = trace::select_allocator(trace::open_trace(path), allocator, path);
        return make_plan(*source, {alignment, finds_period, max_steps, seed, {}}, progress);
      },
      "path"_a, "allocator"_a, nb::kw_only(), "alignment"_a, "finds_period"_a, "max_steps"_a,
      "seed"_a, "progress"_a = nb::none());
  core.def(
      "plan_events",
      [](record_view events, bytes alignment, bool finds_period, std::uint64_t max_steps,
         std::uint64_t seed, nb::object callback) {
        array_reader source{records_of<trace::event>(events)};
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return make_plan(source, {alignment, finds_period, max_steps, seed, {}}, progress);
      },
      "events"_a, nb::kw_only(), "alignment"_a, "finds_period"_a, "max_steps"_a, "seed"_a,
      "progress"_a = nb::none());
}

}  // namespace quarry::python
