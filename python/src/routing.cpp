// SPDX-License-Identifier: Apache-2.0
// Routing tables, and separation of temporary from permanent allocations.
#include "quarry/trace/routing.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/trace/separate.hpp"

#include "event_buffer.hpp"
#include "names.hpp"
#include "plain_class.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::routing_table;

trace::route_key key_named(std::string const& name) {
  if (name == "size") return trace::route_key::size;
  if (name == "call_site") return trace::route_key::call_site;
  if (name == "call_site_and_size") return trace::route_key::call_site_and_size;
  throw bad_argument{"separate: there is no key '" + name +
                     "'; there are size, call_site and call_site_and_size"};
}

routing_table separate(record_view bytes, std::vector<std::string> const& call_sites,
                       std::string const& key, std::uint64_t temporary_events) {
  auto const events = records_of<trace::event>(bytes);
  nb::gil_scoped_release const no_gil;
  return trace::separate(events, name_table_of(call_sites), {key_named(key), temporary_events});
}

}  // namespace

void add_routing(nb::module_& core) {
  plain_class<trace::route>{core, "Route", "Sends some allocations to a pool."}
      .add("pool", &trace::route::pool)
      .add("min_size", &trace::route::min_size)
      .add(
          "max_size",
          [](trace::route const& route) {
            return route.max_size == no_limit ? std::optional<bytes>{} : route.max_size;
          },
          "None: no maximum.")
      .add("call_site", &trace::route::call_site, "Empty: any call site.");
  nb::class_<routing_table>(core, "RoutingTable",
                            "Which of several pools serves an allocation: the first route that "
                            "matches counts, else pool 0.")
      .def_static("load", &routing_table::load, "path"_a, "Reads a file that `save` wrote.")
      .def("save", &routing_table::save, "path"_a, "Writes the table for C++ programs and `load`.")
      .def("__len__", [](routing_table const& table) { return table.routes().size(); })
      .def_prop_ro("routes", [](routing_table const& table) { return table.routes(); })
      .def_prop_ro("pools", &routing_table::pools, "The number of pools.")
      .def("pool_for", &routing_table::pool_for, "size"_a, "call_site"_a = "");
  core.def("separate", separate, "events"_a, "call_sites"_a, "key"_a, "temporary_events"_a);
}

}  // namespace quarry::python
