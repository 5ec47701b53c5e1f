// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"

#include "module.hpp"

#include <nanobind/stl/vector.h>

namespace quarry::python {

/// Adds what a reader skipped, as `problems` and `problem_count`. Needs Python's lock.
inline void add_problems(nb::dict& result, trace::reader const& source) {
  result["problems"] = source.problems();
  result["problem_count"] = source.problem_count();
}

}  // namespace quarry::python
