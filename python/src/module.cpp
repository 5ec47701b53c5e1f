// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include "quarry/version.hpp"

namespace {

/// Daemon threads that are left keep their objects, which is no leak of this module.
void expect_objects_of_daemon_threads() {
  namespace nb = nanobind;
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    auto const threads = nb::module_::import_("threading").attr("active_count")();
    if (nb::cast<int>(threads) > 1) nb::set_leak_warnings(false);
  }));
}

}  // namespace

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
  quarry::python::add_free_space(core);
  quarry::python::add_tuning(core);
  quarry::python::add_graph(core);
  quarry::python::add_measurements(core);
  expect_objects_of_daemon_threads();
}
