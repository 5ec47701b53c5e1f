// SPDX-License-Identifier: Apache-2.0
// The parts of the module quarry._core. Each source adds its functions and classes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/typing.h>

#include "gil.hpp"
#include "text.hpp"

namespace quarry::python {

namespace nb = nanobind;

/// A dictionary with texts for keys.
using text_dict = nb::typed<nb::dict, nb::str, nb::any>;

/// Lets other Python threads run during a call. The call must not use Python objects.
using without_gil = nb::call_guard<released_gil>;

void add_batches(nb::module_& core);
void add_devices(nb::module_& core);
void add_errors(nb::module_& core);
void add_free_space(nb::module_& core);
void add_graph(nb::module_& core);
void add_measurements(nb::module_& core);
void add_options(nb::module_& core);
void add_planned_pools(nb::module_& core);
void add_plans(nb::module_& core);
void add_pools(nb::module_& core);
void add_recorders(nb::module_& core);
void add_registry(nb::module_& core);
void add_heap(nb::module_& core);
void add_plugins(nb::module_& core);
void add_routed_pools(nb::module_& core);
void add_routing(nb::module_& core);
void add_traces(nb::module_& core);
void add_tuning(nb::module_& core);

}  // namespace quarry::python
