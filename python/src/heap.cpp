// SPDX-License-Identifier: Apache-2.0
// The host's side of in-kernel heaps.
#include "quarry/heap.hpp"

#include "plain_class.hpp"
#include "resources.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sstream>

namespace quarry::python {

backend backend_named(char const* user, std::string const& name) {
  if (name == "automatic") return backend::automatic;
  if (name == "cpu") return backend::cpu;
  if (name == "cuda") return backend::cuda;
  throw bad_argument{std::string{user} + ": there is no backend '" + name +
                     "'; there are automatic, cpu and cuda"};
}

namespace {

using namespace nb::literals;

std::optional<std::string> fault_text(heap const& faulty) {
  auto const fault = faulty.first_fault();
  if (!fault) return std::nullopt;
  std::ostringstream out;
  out << *fault;
  return out.str();
}

std::vector<std::pair<std::uint64_t, bytes>> live_allocations(heap const& used) {
  std::vector<std::pair<std::uint64_t, bytes>> result;
  for (auto const& live : used.live_allocations())
    result.emplace_back(reinterpret_cast<std::uint64_t>(live.address), live.bytes);
  return result;
}

}  // namespace

void add_heap(nb::module_& core) {
  plain_class<heap_stats>{core, "HeapStats", "How a heap uses its memory, in bytes."}
      .add("reserved", &heap_stats::reserved, "Memory that the heap has for allocations.")
      .add("allocated", &heap_stats::allocated, "Bytes in allocations, rounded up.")
      .add("free_segments", &heap_stats::free_segments, "Bytes in free segments.")
      .add("largest_free", &heap_stats::largest_free, "The largest allocation that would succeed.")
      .add("free_slices", &heap_stats::free_slices, "Free bytes bound to a size class.")
      .add("metadata", &heap_stats::metadata, "Bytes in addition to `reserved`.")
      .add("allocations_in_use", &heap_stats::allocations_in_use,
           "Allocations that are not freed yet.")
      .add("fragmentation", &heap_stats::fragmentation,
           "The share of the free memory that the largest possible allocation cannot use.");
  nb::class_<heap>(
      core, "Heap",
      "A heap that kernels allocate from. Call no method while a kernel uses the heap.")
      .def(
          "__init__",
          [](heap* self, bytes size, bytes max_bytes, bytes segment_bytes,
             std::string const& backend_name, int device) {
            new (self) heap{{.bytes = size,
                             .max_bytes = max_bytes,
                             .segment_bytes = segment_bytes,
                             .backend_kind = backend_named("heap", backend_name),
                             .device = device}};
          },
          "size"_a, nb::kw_only(), "max_bytes"_a = 0, "segment_bytes"_a = 0,
          "backend"_a = "automatic", "device"_a = current_device, without_gil{},
          "Sizes are in bytes. The heap can grow up to `max_bytes`; 0 means that it cannot grow. "
          "`segment_bytes` is a power of two; 0 selects it by `size`. `backend` is `automatic` (a "
          "GPU if there is one), `cpu` or `cuda`. `device` is the GPU's number; the default is the "
          "current one. Raises BadArgument, OutOfMemory, and ResourceFailed without CUDA.")
      .def_prop_ro(
          "backend",
          [](heap const& used) { return used.backend_kind() == backend::cuda ? "cuda" : "cpu"; },
          "`cpu` or `cuda`.")
      .def_prop_ro(
          "region", [](heap const& used) { return reinterpret_cast<std::uint64_t>(used.region()); },
          "The lowest address of the heap's memory.")
      .def_prop_ro("region_bytes", &heap::region_bytes,
                   "The size of the range that the heap's memory lies in.")
      .def_prop_ro(
          "ref",
          [](heap const& used) {
            heap_ref const ref = used.ref();
            static_assert(std::is_trivially_copyable_v<heap_ref>);
            return nb::bytes(reinterpret_cast<char const*>(&ref), sizeof(ref));
          },
          "The bytes of the `quarry::heap_ref` that a kernel takes by value.")
      .def("stats", &heap::stats, without_gil{}, "How the heap uses its memory.")
      .def("audit", &heap::audit, without_gil{}, "A text for each violated invariant.")
      .def("live_allocations", live_allocations, without_gil{},
           "The address and size of each allocation in use, by address.")
      .def("first_fault", fault_text, without_gil{},
           "The first fault since the last `clear_faults` as text, or None.")
      .def("clear_faults", &heap::clear_faults, without_gil{},
           "Forgets the first fault, and sets the counts of faults to 0.")
      .def("reset", &heap::reset, without_gil{}, "Frees all allocations at once.")
      .def("grow", &heap::grow, "size"_a, without_gil{},
           "Adds memory until at least `size` bytes are reserved.")
      .def("shrink", &heap::shrink, "size"_a, without_gil{},
           "Returns free segments at the end of the heap until `size` bytes are left. Returns the "
           "new size.");
}

}  // namespace quarry::python
