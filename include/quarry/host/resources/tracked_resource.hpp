// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <memory>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Registers a resource's allocations in the registry. It is for memory that is allocated without a
/// pool; pools register themselves. Accepts each kind of call that the upstream accepts.
///
/// Threads may share it if they may share the upstream. It holds its own lock while it writes its
/// table, but not while the upstream works. Costs about 50 bytes for an allocation of 64 bytes, and
/// about 90 for one of 4 KiB, with 100,000 allocations in use. `deallocate` refuses memory that
/// this resource did not allocate, or allocated with another size, and counts the call as an
/// invalid free.
template <class Upstream>
class tracked_resource : public resource_adaptor<tracked_resource<Upstream>, Upstream> {
 public:
  explicit tracked_resource(Upstream upstream, std::string name = {})
      : upstream_{std::move(upstream)},
        shared_{std::make_unique<state>(location_of(upstream_), std::move(name))} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  tracked_resource(std::string name, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...),
        shared_{std::make_unique<state>(location_of(upstream_), std::move(name))} {}

  /// Labels an allocation. Returns false if `pointer` is not the base address of an allocation.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    std::lock_guard const lock{shared_->mutex};
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    auto const found = shared_->table.find(base);
    if (found.id == detail::no_chunk) return false;
    shared_->registered.label(base, {std::move(name), call_site});
    shared_->table.set_labelled(found);
    return true;
  }

  [[nodiscard]] allocator_id id() const { return shared_->registered.id(); }
  /// The number of deallocations of memory that it did not allocate, or with a wrong size.
  [[nodiscard]] std::uint64_t invalid_frees() const {
    std::lock_guard const lock{shared_->mutex};
    return shared_->invalid_frees;
  }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<tracked_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    check_power_of_two("tracked_resource", alignment);
    // The registry distinguishes addresses 16 bytes apart, so two allocations must not share 16
    // bytes.
    void* const result = call.allocate(upstream_, size, aligned(alignment));
    auto const base = reinterpret_cast<std::uint64_t>(result);
    bytes const room = (size + 15) / 16 * 16 + (size == 0 ? 16 : 0);
    registry::mark_below(base);
    try {
      std::lock_guard const lock{shared_->mutex};
      shared_->table.reserve();
      shared_->table.reserve_starts(base, room);
      shared_->table.add_allocation(base, room, size);
    } catch (...) {
      call.deallocate(upstream_, result, size, aligned(alignment));
      throw;
    }
    return result;
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    {
      detail::lock_unless_lost const lock{shared_->mutex};
      if (!lock) return false;
      auto const found = shared_->table.find(base);
      if (found.id == detail::no_chunk || shared_->table[found.id].requested() != size) {
        ++shared_->invalid_frees;
        return false;
      }
      if (shared_->table[found.id].is_labelled()) shared_->registered.forget(base);
      shared_->table.remove_allocation(found);
    }
    return call.deallocate(upstream_, pointer, size, aligned(alignment));
  }

  struct state {
    state(memory_location location, std::string name)
        : registered{table, location, std::move(name), true} {}
    detail::mutex_held_at_fork mutex;
    detail::chunk_table table;  // Guarded by: the mutex, for writes
    detail::registration registered;
    std::uint64_t invalid_frees = 0;  // Guarded by: the mutex
  };
  [[nodiscard]] static bytes aligned(bytes alignment) { return alignment < 16 ? 16 : alignment; }

  Upstream upstream_;
  std::unique_ptr<state> shared_;
};

}  // namespace quarry::inline QUARRY_ABI
