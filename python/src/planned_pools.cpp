// SPDX-License-Identifier: Apache-2.0
// Pools that serve from a plan.
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/pools/planned_pool.hpp"

#include "plain_class.hpp"
#include "pool_parts.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <mutex>
#include <optional>

namespace quarry::python {
namespace {

using namespace nb::literals;

/// The class that Python sees: a planned pool with a lock.
class planned_pool_handle {
 public:
  planned_pool_handle(std::string const& resource, quarry::plan const& plan,
                      pool_options const& fallback, int device, std::uint32_t lookahead,
                      recorder_handle const* handle)
      : recorded_{target_of(handle),
                  fallback.name,
                  trace::recorded_role::allocator,
                  std::in_place,
                  pool_upstream(resource, device, fallback.name, target_of(handle)),
                  plan,
                  planned_pool_options{.fallback = fallback, .lookahead = lookahead}} {}

  std::uint64_t allocate(bytes size, bytes alignment) {
    std::scoped_lock const lock{mutex_};
    return address_of(recorded_.allocate(size, alignment));
  }
  bool deallocate(std::uint64_t address) {
    std::scoped_lock const lock{mutex_};
    return deallocate_recorded(recorded_, address);
  }
  std::optional<bytes> size_of(std::uint64_t address) {
    std::scoped_lock const lock{mutex_};
    return pool_.size_of(pointer_to(address));
  }
  void restart() {
    std::scoped_lock const lock{mutex_};
    pool_.restart();
  }
  void release() {
    std::scoped_lock const lock{mutex_};
    pool_.release();
  }
  planned_pool_counts counts() {
    std::scoped_lock const lock{mutex_};
    return pool_.counts();
  }
  std::vector<std::string> audit() {
    std::scoped_lock const lock{mutex_};
    return pool_.audit();
  }
  std::string location() { return text_of(pool_.location()); }

 private:
  detail::mutex_held_at_fork mutex_;  // a child of a fork may use the pool
  trace::recorded_resource<planned_pool<any_resource>> recorded_;
  planned_pool<any_resource>& pool_ = recorded_.upstream();
};

void add_plan_counts(nb::module_& core) {
  plain_class<planned_pool_counts>{core, "PlannedPoolCounts",
                                   "What a planned pool holds, and what it has done until now."}
      .add("reserved", &planned_pool_counts::reserved, "Bytes of the plan and of the fallback.")
      .add("peak_reserved", &planned_pool_counts::peak_reserved, "The most bytes reserved.")
      .add("allocated", &planned_pool_counts::allocated, "Requested bytes that are not freed yet.")
      .add("peak_allocated", &planned_pool_counts::peak_allocated, "The most bytes allocated.")
      .add("peak_placed", &planned_pool_counts::peak_placed,
           "The most bytes of the plan's places in use.")
      .add("granted", &planned_pool_counts::granted,
           "Bytes of the places and chunks that serve the allocations.")
      .add("allocations", &planned_pool_counts::allocations, "Number of allocations until now.")
      .add("deallocations", &planned_pool_counts::deallocations, "Number of frees until now.")
      .add("allocations_in_use", &planned_pool_counts::allocations_in_use,
           "Allocations that are not freed yet.")
      .add("planned", &planned_pool_counts::planned, "Allocations that the plan served.")
      .add("unplanned", &planned_pool_counts::unplanned,
           "Allocations whose request was not the next one of the plan.")
      .add("occupied", &planned_pool_counts::occupied,
           "Allocations whose place was in use, not aligned, or not in the plan.")
      .add("jumps", &planned_pool_counts::jumps, "Jumps to another position of the plan.")
      .add("invalid_frees", &planned_pool_counts::invalid_frees, "Frees that the pool refused.")
      .add("fallback", &planned_pool_counts::fallback,
           "The counts of the pool that serves what the plan does not.");
}

}  // namespace

void add_planned_pools(nb::module_& core) {
  using handle = planned_pool_handle;
  add_plan_counts(core);
  nb::class_<handle>(core, "PlannedPool",
                     "Serves requests from a plan, and unplanned requests from a pool.")
      .def(nb::init<std::string, plan const&, pool_options const&, int, std::uint32_t,
                    recorder_handle const*>(),
           "resource"_a, "plan"_a, "options"_a, nb::kw_only(), "device"_a, "lookahead"_a,
           "recorder"_a.none(), without_gil{})
      .def("allocate", &handle::allocate, "size"_a, "alignment"_a = 1, without_gil{},
           "Allocates `size` bytes and returns the address. Raises OutOfMemory.")
      .def(
          "deallocate", &handle::deallocate, "address"_a, without_gil{},
          "Frees an allocation. Returns False, and counts an invalid free, if `address` is not the "
          "base address of an allocation in use.")
      .def("size_of", &handle::size_of, "address"_a, without_gil{},
           "The requested bytes of an allocation, or None.")
      .def("restart", &handle::restart, without_gil{},
           "The next request is the first one of the plan's period, or of a plan without a period. "
           "Allocations in use stay valid.")
      .def("release", &handle::release, without_gil{},
           "Returns unused blocks of the fallback to the resource. The plan's block stays.")
      .def("counts", &handle::counts, without_gil{}, "What the pool holds and has done.")
      .def("audit", &handle::audit, without_gil{},
           "A text for each violated invariant; an empty list if there is none.")
      .def_prop_ro("location", &handle::location,
                   "Where the memory lies, for example `host` or `device:0`.");
}

}  // namespace quarry::python
