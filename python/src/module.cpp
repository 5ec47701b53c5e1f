// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include "quarry/version.hpp"

NB_MODULE(_core, core) {
  core.doc() = "The compiled part of Quarry. Import quarry, not this module.";
  core.attr("version") = quarry::version_text;
  quarry::python::add_errors(core);
  quarry::python::add_devices(core);
  quarry::python::add_recorders(core);
  quarry::python::add_options(core);
  quarry::python::add_pools(core);
  quarry::python::add_registry(core);
  quarry::python::add_heap(core);
  quarry::python::add_plugins(core);
  quarry::python::add_routing(core);
  quarry::python::add_routed_pools(core);
  quarry::python::add_plans(core);
  quarry::python::add_planned_pools(core);
  quarry::python::add_traces(core);
  quarry::python::add_batches(core);
  quarry::python::add_tuning(core);
  quarry::python::add_graph(core);
  quarry::python::add_measurements(core);
}
