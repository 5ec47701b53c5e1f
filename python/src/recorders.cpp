// SPDX-License-Identifier: Apache-2.0
// Records the calls of pools.
#include "module.hpp"
#include "recorder_handle.hpp"

#include <nanobind/stl/optional.h>

namespace quarry::python {

void add_recorders(nb::module_& core) {
  using namespace nb::literals;
  core.attr("event_bytes") = sizeof(trace::event);
  core.def("hide_code_of", hide_code_of, "folder"_a,
           "Excludes the code in a folder from call sites.");
  nb::class_<recorder_handle>(core, "Recorder", "Records the events of all threads.")
      .def(nb::init<std::optional<std::string>, std::optional<std::size_t>, bool>(),
           "path"_a.none(), "ring_events"_a.none(), "call_sites"_a, without_gil{})
      .def(
          "phase",
          [](recorder_handle const& handle, std::string const& name) {
            handle.shared()->phase(name);
          },
          "name"_a, without_gil{}, "Records that a phase of the program begins.")
      .def(
          "flush", [](recorder_handle const& handle) { handle.shared()->flush(); }, without_gil{},
          "Writes the events recorded until now to the file. Raises ResourceFailed if an event was "
          "lost since the last call, and BadState in the child of a fork.")
      .def(
          "close", [](recorder_handle const& handle) { handle.shared()->close(); }, without_gil{},
          "Flushes and closes the file. Later events are lost.")
      .def(
          "save",
          [](recorder_handle const& handle, std::string const& path) {
            handle.shared()->save(path);
          },
          "path"_a, without_gil{},
          "Writes the events of the ring to a file. Raises BadState without a ring.")
      .def_prop_ro(
          "lost", [](recorder_handle const& handle) { return handle.shared()->lost(); },
          "The number of events that could not be recorded or written.");
}

}  // namespace quarry::python
