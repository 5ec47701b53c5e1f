// SPDX-License-Identifier: Apache-2.0
// Routing tables, and separation of temporary from permanent allocations.
#include "quarry/trace/routing.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/trace/separate.hpp"

#include "event_buffer.hpp"
#include "names.hpp"
#include "options.hpp"
#include "plain_class.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <filesystem>
#include <new>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::routing_table;

trace::route_key key_named(std::string const& name) {
  if (name == "size") return trace::route_key::size;
  if (name == "call_site") return trace::route_key::call_site;
  if (name == "call_site_and_size") return trace::route_key::call_site_and_size;
  if (name == "phase") return trace::route_key::phase;
  if (name == "phase_and_size") return trace::route_key::phase_and_size;
  throw bad_argument{"separate: there is no key '" + name +
                     "'; there are size, call_site, call_site_and_size, phase and phase_and_size"};
}

routing_table separate(record_view bytes, std::vector<std::string> const& call_sites,
                       std::string const& key, std::uint64_t temporary_events) {
  auto const events = records_of<trace::event>(bytes);
  released_gil const no_gil;
  return trace::separate(events, name_table_of(call_sites), {key_named(key), temporary_events});
}

}  // namespace

void add_routing(nb::module_& core) {
  plain_class<trace::route>{core, "Route",
                            "Sends the allocations of some sizes, call sites and phases to a pool."}
      .add_method(
          "__init__",
          [](trace::route* self, std::uint32_t pool, bytes min_size, std::optional<bytes> max_size,
             std::string call_site, std::string phase) {
            new (self) trace::route{pool, min_size, limit_of(max_size), std::move(call_site),
                                    std::move(phase)};
          },
          "pool"_a, "min_size"_a = 0, "max_size"_a = nb::none(), "call_site"_a = "", "phase"_a = "",
          "Sizes are in bytes; both limits are included. `max_size` None means no maximum. An "
          "empty `call_site` means any call site, and an empty `phase` any phase of the program.")
      .add("pool", &trace::route::pool, "The number of the pool, below 16.")
      .add("min_size", &trace::route::min_size, "The smallest size in bytes.")
      .add(
          "max_size",
          [](trace::route const& route) {
            return route.max_size == no_limit ? std::optional<bytes>{} : route.max_size;
          },
          "The largest size in bytes. None: no maximum.")
      .add("call_site", &trace::route::call_site, "Empty: any call site.")
      .add("phase", &trace::route::phase, "Empty: any phase.")
      .add_method(
          "__eq__",
          [](trace::route const& route, trace::route const& other) { return route == other; },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  nb::class_<routing_table>(core, "RoutingTable",
                            "Which of several pools serves an allocation: the first route that "
                            "matches counts, else pool 0.")
      .def(nb::init<std::vector<trace::route>>(), "routes"_a = std::vector<trace::route>{},
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
  core.def("separate", separate, "events"_a, "call_sites"_a, "key"_a, "temporary_events"_a);
}

}  // namespace quarry::python
