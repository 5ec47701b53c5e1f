// SPDX-License-Identifier: Apache-2.0
// Lookups in the registry.
#include "quarry/host/registry/registry.hpp"

#include "plain_class.hpp"
#include "resources.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <sstream>

namespace quarry::python {
using namespace nb::literals;

void add_registry(nb::module_& core) {
  plain_class<allocation_record>{core, "Allocation", "The record of an allocation."}
      .add("allocator", &allocation_record::allocator, "The allocator's number.")
      .add(
          "location", [](allocation_record const& found) { return text_of(found.location); },
          "Where the memory lies, for example `host` or `device:0`.")
      .add(
          "base", [](allocation_record const& found) { return address_of(found.base); },
          "The base address.")
      .add("size", &allocation_record::size, "Requested bytes.");
  plain_class<registry::allocator_info>{core, "Allocator", "An allocator that is registered."}
      .add("id", &registry::allocator_info::id, "The allocator's number.")
      .add("name", &registry::allocator_info::name, "The name of its options; may be empty.")
      .add(
          "location", [](registry::allocator_info const& info) { return text_of(info.location); },
          "Where the memory lies, for example `host` or `device:0`.")
      .add("allocations_in_use", &registry::allocator_info::allocations_in_use,
           "Allocations that are not freed yet.")
      .add("allocated", &registry::allocator_info::allocated, "Requested bytes in use.");

  core.def(
      "registry_find", [](std::uint64_t address) { return registry::find(pointer_to(address)); },
      "address"_a, "The record of the allocation that contains `address`, or None.");
  core.def(
      "registry_label_of",
      [](std::uint64_t address) -> std::optional<std::string> {
        auto const label = registry::label_of(pointer_to(address));
        if (!label) return std::nullopt;
        return label->name;
      },
      "address"_a, without_gil{}, "The name of the allocation that contains `address`, or None.");
  core.def("registry_allocators", &registry::allocators, without_gil{}, "All allocators.");
  core.def("registry_allocations", &registry::allocations, "allocator"_a = 0, without_gil{},
           "The records of an allocator's allocations; 0 means all allocators.");
  core.def(
      "registry_report",
      [](allocator_id allocator) {
        std::ostringstream out;
        registry::report(out, allocator);
        return out.str();
      },
      "allocator"_a = 0, without_gil{},
      "A line for each allocation and each allocator. At the end of a program these are leaks.");
}

}  // namespace quarry::python
