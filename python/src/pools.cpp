// SPDX-License-Identifier: Apache-2.0
// Resources, and pools over them.
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/recorded_resource.hpp"

#include "plain_class.hpp"
#include "pool_parts.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <memory>
#include <mutex>

namespace quarry::python {

any_resource resource_named(std::string const& kind, int device) {
  if (kind == "host") return any_resource{host_resource{}};
  if (kind == "device") return any_resource{device_resource{device}};
  if (kind == "pinned") return any_resource{pinned_resource{}};
  if (kind == "managed") return any_resource{managed_resource{}};
  throw bad_argument{"pool: there is no resource '" + kind +
                     "'; there are host, device, pinned and managed"};
}

std::string text_of(memory_location location) {
  std::string result = name_of(location.kind);
  if (location.kind == memory_kind::device) result += ':' + std::to_string(location.device);
  return result;
}

namespace {

using namespace nb::literals;

/// Any pool, with a lock: Python threads share it, and calls release Python's own lock.
class locked_pool {
 public:
  virtual ~locked_pool() = default;
  virtual std::uint64_t allocate(bytes size, bytes alignment) = 0;
  virtual bool deallocate(std::uint64_t address) = 0;
  virtual std::optional<bytes> size_of(std::uint64_t address) = 0;
  virtual bool label(std::uint64_t address, std::string name) = 0;
  virtual void release() = 0;
  virtual void coalesce(bytes wanted) = 0;
  virtual pool_counts counts() = 0;
  virtual std::vector<std::string> audit() = 0;
  virtual std::uint32_t id() = 0;
  virtual memory_location location() = 0;
};

template <placement Placement>
class locked_pool_of final : public locked_pool {
 public:
  locked_pool_of(any_resource resource, pool_options const& options,
                 std::shared_ptr<trace::recorder> const& recorder)
      : recorded_{recorder,      options.name,        trace::recorded_role::allocator,
                  std::in_place, std::move(resource), options} {}
  std::uint64_t allocate(bytes size, bytes alignment) override {
    std::scoped_lock const lock{mutex_};
    return address_of(recorded_.allocate(size, alignment));
  }
  bool deallocate(std::uint64_t address) override {
    std::scoped_lock const lock{mutex_};
    return deallocate_recorded(recorded_, address);
  }
  std::optional<bytes> size_of(std::uint64_t address) override {
    std::scoped_lock const lock{mutex_};
    return pool_.size_of(pointer_to(address));
  }
  bool label(std::uint64_t address, std::string name) override {
    std::scoped_lock const lock{mutex_};
    return pool_.label(pointer_to(address), std::move(name));
  }
  void release() override {
    std::scoped_lock const lock{mutex_};
    pool_.release();
  }
  void coalesce(bytes wanted) override {
    std::scoped_lock const lock{mutex_};
    pool_.coalesce(wanted);
  }
  pool_counts counts() override {
    std::scoped_lock const lock{mutex_};
    return pool_.counts();
  }
  std::vector<std::string> audit() override {
    std::scoped_lock const lock{mutex_};
    return pool_.audit();
  }
  std::uint32_t id() override { return pool_.id(); }
  memory_location location() override { return location_of(pool_.resource()); }

 private:
  detail::mutex_held_at_fork mutex_;  // a child of a fork may use the pool
  trace::recorded_resource<pool<any_resource, Placement>> recorded_;
  pool<any_resource, Placement>& pool_ = recorded_.upstream();
};

/// The class that Python sees: owns a pool whose placement is chosen at run time.
class pool_handle {
 public:
  pool_handle(std::string const& resource, pool_options const& options, int device,
              std::string const& placement_name, recorder_handle const* handle)
      : pool_{with_placement(placement_name,
                             [&]<class Placement>() -> std::unique_ptr<locked_pool> {
                               auto const recorder = target_of(handle);
                               return std::make_unique<locked_pool_of<Placement>>(
                                   pool_upstream(resource, device, options.name, recorder), options,
                                   recorder);
                             })},
        sites_{handle == nullptr ? nullptr : handle->sites()} {}

  std::uint64_t allocate(bytes size, bytes alignment) {
    recorded_call const call{sites_.get()};
    return pool_->allocate(size, alignment);
  }
  bool deallocate(std::uint64_t address) { return pool_->deallocate(address); }
  std::optional<bytes> size_of(std::uint64_t address) { return pool_->size_of(address); }
  bool label(std::uint64_t address, std::string name) {
    return pool_->label(address, std::move(name));
  }
  void release() { pool_->release(); }
  void coalesce(bytes wanted) { pool_->coalesce(wanted); }
  pool_counts counts() { return pool_->counts(); }
  std::vector<std::string> audit() { return pool_->audit(); }
  std::uint32_t id() { return pool_->id(); }
  std::string location() { return text_of(pool_->location()); }

 private:
  std::unique_ptr<locked_pool> pool_;
  std::shared_ptr<call_sites> sites_;  // null: events have no call sites
};

void add_counts(nb::module_& core) {
  plain_class<pool_counts>{core, "PoolCounts", "What a pool holds, and what it has done until now."}
      .add("reserved", &pool_counts::reserved, "Bytes of the pool's blocks.")
      .add("peak_reserved", &pool_counts::peak_reserved, "The most bytes reserved.")
      .add("allocated", &pool_counts::allocated, "Requested bytes that are not freed yet.")
      .add("peak_allocated", &pool_counts::peak_allocated, "The most bytes allocated.")
      .add("granted", &pool_counts::granted, "Bytes of the chunks that serve the allocations.")
      .add("peak_granted", &pool_counts::peak_granted, "The most bytes granted.")
      .add("releasable", &pool_counts::releasable, "Bytes of blocks without allocations.")
      .add("releasable_blocks", &pool_counts::releasable_blocks,
           "Number of blocks without allocations.")
      .add("free_chunks", &pool_counts::free_chunks, "Number of free chunks.")
      .add("largest_free", &pool_counts::largest_free, "Bytes of the largest free chunk.")
      .add("allocations", &pool_counts::allocations, "Number of allocations until now.")
      .add("deallocations", &pool_counts::deallocations, "Number of frees until now.")
      .add("allocations_in_use", &pool_counts::allocations_in_use,
           "Allocations that are not freed yet.")
      .add("blocks_allocated", &pool_counts::blocks_allocated, "Blocks taken from the resource.")
      .add("blocks_returned", &pool_counts::blocks_returned, "Blocks returned to the resource.")
      .add("coalesces", &pool_counts::coalesces,
           "Times that the pool replaced its empty blocks by a new one.")
      .add("invalid_frees", &pool_counts::invalid_frees, "Frees that the pool refused.")
      .add("overruns", &pool_counts::overruns, "Frees of allocations with a changed red zone.");
}

}  // namespace

void add_pools(nb::module_& core) {
  add_counts(core);
  nb::class_<pool_handle>(core, "Pool",
                          "Takes blocks from a resource and hands out chunks of them.")
      .def(nb::init<std::string, pool_options const&, int, std::string, recorder_handle const*>(),
           "resource"_a, "options"_a, nb::kw_only(), "device"_a, "placement"_a, "recorder"_a.none(),
           without_gil{})
      .def("allocate", &pool_handle::allocate, "size"_a, "alignment"_a = 1,
           "Allocates `size` bytes and returns the address. Raises OutOfMemory.")
      .def(
          "deallocate", &pool_handle::deallocate, "address"_a, without_gil{},
          "Frees an allocation. Returns False, and counts an invalid free, if `address` is not the "
          "base address of an allocation in use.")
      .def("size_of", &pool_handle::size_of, "address"_a, without_gil{},
           "The requested bytes of an allocation, or None.")
      .def("label", &pool_handle::label, "address"_a, "name"_a, without_gil{},
           "Names an allocation for reports. Returns False if `address` is not allocated.")
      .def("release", &pool_handle::release, without_gil{},
           "Returns the blocks without allocations to the resource.")
      .def("coalesce", &pool_handle::coalesce, "wanted"_a = 0, without_gil{},
           "Returns empty blocks, then takes one block if less than `wanted` bytes are reserved.")
      .def("counts", &pool_handle::counts, without_gil{}, "What the pool holds and has done.")
      .def("audit", &pool_handle::audit, without_gil{},
           "A text for each violated invariant; an empty list if there is none.")
      .def_prop_ro("id", &pool_handle::id, "The pool's number in the registry.")
      .def_prop_ro("location", &pool_handle::location,
                   "Where the memory lies, for example `host` or `device:0`.");
}

}  // namespace quarry::python
