// SPDX-License-Identifier: Apache-2.0
// Resources, and pools over them.
#include "quarry/host/pools/chunk_arena.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/recorded_resource.hpp"
#include "quarry/trace/replay.hpp"

#include "plain_class.hpp"
#include "recorder_handle.hpp"
#include "resources.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
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
};

void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

template <placement Placement>
class locked_pool_of final : public locked_pool {
 public:
  locked_pool_of(any_resource resource, pool_options const& options,
                 std::shared_ptr<trace::recorder> const& recorder)
      : recorded_{recorder,      options.name,        trace::recorded_role::allocator,
                  std::in_place, std::move(resource), options} {}
  std::uint64_t allocate(bytes size, bytes alignment) override {
    std::scoped_lock const lock{mutex_};
    return reinterpret_cast<std::uint64_t>(recorded_.allocate(size, alignment));
  }
  bool deallocate(std::uint64_t address) override {
    std::scoped_lock const lock{mutex_};
    void* const pointer = pointer_to(address);
    if (recorded_.target() == nullptr) return pool_.deallocate(pointer);
    auto const size = pool_.size_of(pointer);
    if (!size) return pool_.deallocate(pointer);  // invalid: the trace does not show it
    recorded_.deallocate(pointer, *size, 1);
    return true;
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

 private:
  std::mutex mutex_;
  trace::recorded_resource<pool<any_resource, Placement>> recorded_;
  pool<any_resource, Placement>& pool_ = recorded_.upstream();
};

std::unique_ptr<locked_pool> make_pool(std::string const& kind, int device,
                                       std::string const& placement_name,
                                       pool_options const& options,
                                       std::shared_ptr<trace::recorder> const& recorder) {
  auto resource = resource_named(kind, device);
  if (recorder != nullptr)
    resource = any_resource{trace::recorded_resource{std::move(resource), recorder, options.name,
                                                     trace::recorded_role::upstream}};
  if (placement_name == "fast_fit")
    return std::make_unique<locked_pool_of<fast_fit>>(std::move(resource), options, recorder);
  if (placement_name == "segregated_fit")
    return std::make_unique<locked_pool_of<chunk_arena<segregated_fit>>>(std::move(resource),
                                                                         options, recorder);
  if (placement_name == "oldest_best_fit")
    return std::make_unique<locked_pool_of<chunk_arena<oldest_best_fit>>>(std::move(resource),
                                                                          options, recorder);
  if (placement_name == "lowest_best_fit")
    return std::make_unique<locked_pool_of<chunk_arena<lowest_best_fit>>>(std::move(resource),
                                                                          options, recorder);
  throw bad_argument{"pool: there is no placement '" + placement_name +
                     "'; there are fast_fit, segregated_fit, oldest_best_fit and lowest_best_fit"};
}

/// The class that Python sees: owns a pool whose placement is chosen at run time.
class pool_handle {
 public:
  pool_handle(std::string const& resource, int device, std::string const& placement_name,
              std::string const& coalesce, bytes first_block, bytes next_block,
              std::uint32_t growth_percent, bytes alignment, std::optional<bytes> max_bytes,
              std::uint64_t shrink_after, bytes red_zone, bool keeps_backtraces, std::string name,
              recorder_handle const* recorder)
      : pool_{make_pool(resource, device, placement_name,
                        {.first_block = first_block,
                         .next_block = next_block,
                         .growth_percent = growth_percent,
                         .alignment = alignment,
                         .max_bytes = max_bytes.value_or(no_limit),
                         .coalesce = trace::heuristic_named(coalesce),
                         .shrink_after = shrink_after,
                         .name = std::move(name),
                         .red_zone = red_zone,
                         .keeps_backtraces = keeps_backtraces},
                        recorder == nullptr ? nullptr : recorder->shared())},
        sites_{recorder == nullptr ? nullptr : recorder->sites()} {}

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

 private:
  std::unique_ptr<locked_pool> pool_;
  std::shared_ptr<call_sites> sites_;  // null: events have no call sites
};

void add_counts(nb::module_& core) {
  plain_class<pool_counts>{core, "PoolCounts", "What a pool holds, and what it has done until now."}
      .add("reserved", &pool_counts::reserved, "Bytes of the pool's blocks.")
      .add("peak_reserved", &pool_counts::peak_reserved)
      .add("allocated", &pool_counts::allocated, "Requested bytes that are not freed yet.")
      .add("peak_allocated", &pool_counts::peak_allocated)
      .add("granted", &pool_counts::granted, "Bytes of the chunks that serve the allocations.")
      .add("peak_granted", &pool_counts::peak_granted)
      .add("releasable", &pool_counts::releasable, "Bytes of blocks without allocations.")
      .add("releasable_blocks", &pool_counts::releasable_blocks)
      .add("free_chunks", &pool_counts::free_chunks)
      .add("largest_free", &pool_counts::largest_free, "Bytes of the largest free chunk.")
      .add("allocations", &pool_counts::allocations, "Number of allocations until now.")
      .add("deallocations", &pool_counts::deallocations)
      .add("allocations_in_use", &pool_counts::allocations_in_use)
      .add("blocks_allocated", &pool_counts::blocks_allocated, "Blocks taken from the resource.")
      .add("blocks_returned", &pool_counts::blocks_returned)
      .add("coalesces", &pool_counts::coalesces)
      .add("invalid_frees", &pool_counts::invalid_frees, "Frees that the pool refused.")
      .add("overruns", &pool_counts::overruns, "Frees of allocations with a changed red zone.");
}

}  // namespace

void add_pools(nb::module_& core) {
  add_counts(core);
  nb::class_<pool_handle>(core, "Pool",
                          "Takes blocks from a resource and hands out chunks of them.")
      .def(nb::init<std::string, int, std::string, std::string, bytes, bytes, std::uint32_t, bytes,
                    std::optional<bytes>, std::uint64_t, bytes, bool, std::string,
                    recorder_handle const*>(),
           "resource"_a, nb::kw_only(), "device"_a = 0, "placement"_a = "fast_fit",
           "coalesce"_a = "never", "first_block"_a = 0, "next_block"_a = 0, "growth_percent"_a = 4,
           "alignment"_a = 16, "max_bytes"_a = nb::none(), "shrink_after"_a = 0, "red_zone"_a = 0,
           "keeps_backtraces"_a = false, "name"_a = "", "recorder"_a = nb::none(), without_gil{})
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
      .def_prop_ro("id", &pool_handle::id, "The pool's number in the registry.");
}

}  // namespace quarry::python
