// SPDX-License-Identifier: Apache-2.0
// Routing tables, and separation of temporary from permanent allocations.
#include "quarry/host/pools/routing.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/trace/compare_keys.hpp"
#include "quarry/trace/separate.hpp"

#include "event_buffer.hpp"
#include "options.hpp"
#include "plain_class.hpp"
#include "progress.hpp"
#include "replays.hpp"
#include "sources.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <filesystem>
#include <new>
#include <utility>

namespace quarry::python {
namespace {

using namespace nb::literals;

class separate_settings {
 public:
  separate_settings(std::vector<std::string> const& keys, std::uint64_t temporary_events,
                    double learn)
      : options{.temporary_events = temporary_events, .learn = learn} {
    for (std::string const& each : keys) options.keys.push_back(trace::route_key_named(each));
  }
  trace::key_comparison_options options;
};

text_dict run(trace::trace_source const& source, separate_settings const& settings,
              replay_settings const& pool, progress_reporter& progress) {
  trace::key_comparison_options options = settings.options;
  options.replay = pool.options;
  options.progress = [&progress, before = std::uint64_t{0}](std::uint64_t events) mutable {
    progress.add(events - std::exchange(before, events));
  };
  auto const found = trace::compare_keys(source, options);
  held_gil const gil;
  nb::list keys;
  for (trace::compared_key const& each : found.keys) {
    text_dict tried;
    tried["key"] = trace::name_of(each.key);
    tried["table"] = nb::cast(each.table);
    tried["apart"] = dict_of(each.apart, found.names.call_sites);
    keys.append(tried);
  }
  text_dict result;
  result["learned_events"] = found.learned_events;
  result["together"] = dict_of(found.together, found.names.call_sites);
  result["keys"] = keys;
  result["best"] = found.best == found.keys.size() ? nb::none() : nb::object{nb::int_(found.best)};
  result["problems"] = found.problems;
  result["problem_count"] = found.problem_count;
  return result;
}

routing_table learn(trace::trace_source const& source, std::string const& key,
                    std::uint64_t temporary_events, progress_reporter& progress) {
  trace::route_key const sort = trace::route_key_named(key);
  trace::separation_learner learner{temporary_events};
  auto const events = source();
  std::vector<trace::event> buffer(1 << 14);
  while (std::size_t const count = events->read(buffer)) {
    learner.add(std::span{buffer}.first(count));
    progress.add(count);
  }
  return learner.table(sort, events->names().call_sites);
}

}  // namespace

void add_routing(nb::module_& core) {
  plain_class<route>{core, "Route",
                     "Sends the allocations of some sizes, call sites and phases to a pool."}
      .add_method(
          "__init__",
          [](route* self, std::uint32_t pool, bytes min_size, std::optional<bytes> max_size,
             std::string call_site, std::string phase) {
            new (self)
                route{pool, min_size, limit_of(max_size), std::move(call_site), std::move(phase)};
          },
          "pool"_a, "min_size"_a = 0, "max_size"_a = nb::none(), "call_site"_a = "", "phase"_a = "",
          "Sizes are in bytes; both limits are included. `max_size` None means no maximum. An "
          "empty `call_site` means any call site, and an empty `phase` any phase of the program.")
      .add("pool", &route::pool, "The number of the pool, below 16.")
      .add("min_size", &route::min_size, "The smallest size in bytes.")
      .add(
          "max_size",
          [](route const& each) {
            return each.max_size == no_limit ? std::optional<bytes>{} : each.max_size;
          },
          "The largest size in bytes. None: no maximum.")
      .add("call_site", &route::call_site, "Empty: any call site.")
      .add("phase", &route::phase, "Empty: any phase.")
      .add_method(
          "__eq__", [](route const& each, route const& other) { return each == other; },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  nb::class_<routing_table>(core, "RoutingTable",
                            "Which of several pools serves an allocation: the first route that "
                            "matches counts, else pool 0.")
      .def(nb::init<std::vector<route>>(), "routes"_a = std::vector<route>{},
           "Raises BadArgument if a pool's number is 16 or more, a size range is empty, or a call "
           "site or a phase has a line break.")
      .def_static(
          "load",
          [](std::filesystem::path const& path) { return routing_table::load(path.string()); },
          "path"_a, without_gil{},
          nb::sig("def load(path: str | os.PathLike[str]) -> RoutingTable"),
          "Reads a file that `save` wrote. Raises BadArgument, which names the line, and "
          "ResourceFailed.")
      .def(
          "save",
          [](routing_table const& table, std::filesystem::path const& path) {
            table.save(path.string());
          },
          "path"_a, without_gil{}, nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Writes the table for `load` and for C++ programs. Raises ResourceFailed.")
      .def("__len__", [](routing_table const& table) { return table.routes().size(); })
      .def(
          "__eq__",
          [](routing_table const& table, routing_table const& other) {
            return table.routes() == other.routes();
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def_prop_ro(
          "routes", [](routing_table const& table) { return table.routes(); }, "In their order.")
      .def_prop_ro("pools", &routing_table::pools, "The number of pools.")
      .def("pool_for", &routing_table::pool_for, "size"_a, "call_site"_a = "", "phase"_a = "",
           "The number of the pool for an allocation of `size` bytes.");
  nb::class_<separate_settings>(core, "SeparateSettings")
      .def(nb::init<std::vector<std::string>, std::uint64_t, double>(), nb::kw_only(), "keys"_a,
           "temporary_events"_a, "learn"_a);
  core.def(
      "separate_file",
      [](std::string const& path, std::string const& allocator, separate_settings const& settings,
         replay_settings const& pool, nb::object callback) {
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return run(source_of(path, allocator), settings, pool, progress);
      },
      "path"_a, "allocator"_a, "settings"_a, "pool"_a, "progress"_a = nb::none());
  core.def(
      "separate_events",
      [](record_view bytes, std::vector<std::string> const& call_sites,
         separate_settings const& settings, replay_settings const& pool, nb::object callback) {
        auto const events = records_of<trace::event>(bytes);
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return run(source_of(events, call_sites), settings, pool, progress);
      },
      "events"_a, "call_sites"_a, "settings"_a, "pool"_a, "progress"_a = nb::none());
  core.def(
      "learn_file",
      [](std::string const& path, std::string const& allocator, std::string const& key,
         std::uint64_t temporary_events, nb::object callback) {
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return learn(source_of(path, allocator), key, temporary_events, progress);
      },
      "path"_a, "allocator"_a, "key"_a, "temporary_events"_a, "progress"_a = nb::none());
  core.def(
      "learn_events",
      [](record_view bytes, std::vector<std::string> const& call_sites, std::string const& key,
         std::uint64_t temporary_events, nb::object callback) {
        auto const events = records_of<trace::event>(bytes);
        released_gil const no_gil;
        progress_reporter progress{std::move(callback)};
        return learn(source_of(events, call_sites), key, temporary_events, progress);
      },
      "events"_a, "call_sites"_a, "key"_a, "temporary_events"_a, "progress"_a = nb::none());
}

}  // namespace quarry::python
