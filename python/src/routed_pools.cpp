// SPDX-License-Identifier: Apache-2.0
// Pools that a routing table chooses from.
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/pools/routed_pool.hpp"

#include "module.hpp"
#include "pool_parts.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <mutex>
#include <optional>

namespace quarry::python {
namespace {

using namespace nb::literals;

/// A routed pool with a lock, whose placement is chosen at run time.
class locked_routed_pool {
 public:
  virtual ~locked_routed_pool() = default;
  virtual std::uint64_t allocate(bytes size, std::string_view call_site) = 0;
  virtual void begin_phase(std::string_view name) = 0;
  virtual bool deallocate(std::uint64_t address) = 0;
  virtual std::optional<bytes> size_of(std::uint64_t address) = 0;
  virtual void release() = 0;
  virtual pool_counts counts() = 0;
  virtual pool_counts counts_of(std::uint32_t pool) = 0;
  virtual std::vector<std::string> audit() = 0;
  virtual memory_location location() = 0;
  virtual routing_table table() = 0;
};

template <class Placement>
class locked_routed_pool_of final : public locked_routed_pool {
 public:
  locked_routed_pool_of(any_resource resource, routing_table const& table,
                        pool_options const& options, std::shared_ptr<trace::recorder> recorder)
      : pool_{std::move(resource), table, options}, recorder_{std::move(recorder)} {
    if (recorder_ != nullptr) allocator_ = recorder_->allocator(options.name);
  }
  std::uint64_t allocate(bytes size, std::string_view call_site) override {
    std::scoped_lock const lock{mutex_};
    void* result = nullptr;
    try {
      result = pool_.allocate(size, call_site);
    } catch (out_of_memory const&) {
      record(trace::event_kind::fail, nullptr, size, call_site);
      throw;
    }
    record(trace::event_kind::allocate, result, size, call_site);
    return address_of(result);
  }
  void begin_phase(std::string_view name) override {
    std::scoped_lock const lock{mutex_};
    pool_.begin_phase(name);
    if (recorder_ != nullptr) recorder_->phase(name);
  }
  bool deallocate(std::uint64_t address) override {
    std::scoped_lock const lock{mutex_};
    void* const pointer = pointer_to(address);
    if (recorder_ != nullptr) {
      if (auto const size = pool_.size_of(pointer))
        record(trace::event_kind::deallocate, pointer, *size, {});
    }
    return pool_.deallocate(pointer);
  }
  std::optional<bytes> size_of(std::uint64_t address) override {
    std::scoped_lock const lock{mutex_};
    return pool_.size_of(pointer_to(address));
  }
  void release() override {
    std::scoped_lock const lock{mutex_};
    pool_.release();
  }
  pool_counts counts() override {
    std::scoped_lock const lock{mutex_};
    return pool_.counts();
  }
  pool_counts counts_of(std::uint32_t pool) override {
    std::scoped_lock const lock{mutex_};
    if (pool >= pool_.pools())
      throw bad_argument{"routed_pool: pool " + std::to_string(pool) + " is not below " +
                         std::to_string(pool_.pools())};
    return pool_.counts_of(pool);
  }
  std::vector<std::string> audit() override {
    std::scoped_lock const lock{mutex_};
    return pool_.audit();
  }
  memory_location location() override { return pool_.location(); }
  routing_table table() override { return pool_.table(); }

 private:
  void record(trace::event_kind kind, void const* pointer, bytes size, std::string_view call_site) {
    if (recorder_ == nullptr) return;
    recorder_->record({.address = address_of(pointer),
                       .size = size,
                       .allocator = allocator_,
                       .call_site = call_site.empty() ? 0 : recorder_->call_site(call_site),
                       .kind = kind});
  }

  detail::mutex_held_at_fork mutex_;  // a child of a fork may use the pool
  routed_pool<any_resource, Placement> pool_;
  std::shared_ptr<trace::recorder> recorder_;
  std::uint32_t allocator_ = 0;
};

class routed_pool_handle {
 public:
  routed_pool_handle(std::string const& resource, routing_table const& table,
                     pool_options const& options, int device, std::string const& placement_name,
                     recorder_handle const* handle)
      : pool_{with_placement(placement_name,
                             [&]<class Placement>() -> std::unique_ptr<locked_routed_pool> {
                               auto const recorder = target_of(handle);
                               return std::make_unique<locked_routed_pool_of<Placement>>(
                                   pool_upstream(resource, device, options.name, recorder), table,
                                   options, recorder);
                             })} {}

  [[nodiscard]] locked_routed_pool& pool() const { return *pool_; }

 private:
  std::unique_ptr<locked_routed_pool> pool_;
};

}  // namespace

void add_routed_pools(nb::module_& core) {
  using handle = routed_pool_handle;
  nb::class_<handle>(core, "RoutedPool",
                     "Several pools over one resource. A table chooses the pool.")
      .def(nb::init<std::string, routing_table const&, pool_options const&, int, std::string,
                    recorder_handle const*>(),
           "resource"_a, "table"_a, "options"_a, nb::kw_only(), "device"_a, "placement"_a,
           "recorder"_a.none(), without_gil{})
      .def(
          "allocate",
          [](handle const& self, bytes size, std::string const& call_site) {
            return self.pool().allocate(size, call_site);
          },
          "size"_a, "call_site"_a = "", without_gil{},
          "Allocates `size` bytes from the pool that the table names for the size and the call "
          "site. Returns the address. Raises OutOfMemory.")
      .def(
          "begin_phase",
          [](handle const& self, std::string const& name) { self.pool().begin_phase(name); },
          "name"_a, without_gil{},
          "A phase of the program begins, for the routes of later allocations. A recorder records "
          "it, too.")
      .def(
          "deallocate",
          [](handle const& self, std::uint64_t address) { return self.pool().deallocate(address); },
          "address"_a, without_gil{},
          "Frees an allocation. Returns False, and counts an invalid free, if `address` is not the "
          "base address of an allocation in use.")
      .def(
          "size_of",
          [](handle const& self, std::uint64_t address) { return self.pool().size_of(address); },
          "address"_a, without_gil{}, "The requested bytes of an allocation, or None.")
      .def(
          "release", [](handle const& self) { self.pool().release(); }, without_gil{},
          "Returns the blocks without allocations to the resource.")
      .def(
          "counts", [](handle const& self) { return self.pool().counts(); }, without_gil{},
          "The sums over the pools. `peak_reserved` and `peak_allocated` are those of all pools "
          "together.")
      .def(
          "counts_of",
          [](handle const& self, std::uint32_t pool) { return self.pool().counts_of(pool); },
          "pool"_a, without_gil{},
          "The counts of one pool. Raises BadArgument if the table has no such pool.")
      .def(
          "audit", [](handle const& self) { return self.pool().audit(); }, without_gil{},
          "A text for each violated invariant; an empty list if there is none.")
      .def_prop_ro(
          "location", [](handle const& self) { return text_of(self.pool().location()); },
          "Where the memory lies, for example `host` or `device:0`.")
      .def_prop_ro(
          "table", [](handle const& self) { return self.pool().table(); },
          "The table that the pool was made with.");
}

}  // namespace quarry::python
