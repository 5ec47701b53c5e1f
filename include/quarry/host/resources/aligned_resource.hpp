// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Provides larger alignments than its upstream can. For an alignment above `max_upstream`, the
/// upstream's maximum, it requests `alignment` bytes more and returns an aligned address inside.
/// It stores the upstream's address in a table of its own, because the host may not be able to
/// access the memory. With such an alignment it refuses to
/// free an address that is not in the table.
/// Accepts each kind of call that the upstream accepts.
///
/// Threads may share it if they may share the upstream. It locks its table for alignments above
/// `max_upstream` only, and never while the upstream works.
template <class Upstream>
class aligned_resource : public resource_adaptor<aligned_resource<Upstream>, Upstream> {
 public:
  aligned_resource(Upstream upstream, bytes max_upstream)
      : upstream_{std::move(upstream)}, max_upstream_{max_upstream} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  aligned_resource(bytes max_upstream, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), max_upstream_{max_upstream} {}

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<aligned_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    check_power_of_two("aligned_resource", alignment);
    if (alignment <= max_upstream_) return call.allocate(upstream_, size, alignment);
    if (size > max_bytes_at_once || alignment > max_bytes_at_once)
      throw out_of_memory{"aligned_resource", size, request_too_large};
    void* const whole = call.allocate(upstream_, size + alignment, max_upstream_);
    auto* const result = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(whole) + alignment - 1) & ~(alignment - 1));
    try {
      std::lock_guard const lock{shared_->mutex};
      shared_->bases.emplace(result, whole);
    } catch (...) {
      call.deallocate(upstream_, whole, size + alignment, max_upstream_);
      throw;
    }
    return result;
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    if (alignment <= max_upstream_) return call.deallocate(upstream_, pointer, size, alignment);
    if (pointer == nullptr) return true;
    // Another thread may get the address as soon as the upstream has it, so the entry goes first.
    void* const whole = remove(pointer);
    return whole != nullptr && call.deallocate(upstream_, whole, size + alignment, max_upstream_);
  }

  struct state {
    detail::mutex_held_at_fork mutex;
    // Returned address -> the upstream's address. Guarded by: the mutex
    std::unordered_map<void*, void*> bases;
  };
  /// Removes an entry of the table and returns its value, nullptr if there is no such entry.
  [[nodiscard]] void* remove(void* pointer) noexcept {
    detail::lock_unless_lost const lock{shared_->mutex};
    if (!lock) return nullptr;
    auto const found = shared_->bases.find(pointer);
    if (found == shared_->bases.end()) return nullptr;
    void* const whole = found->second;
    shared_->bases.erase(found);
    return whole;
  }

  Upstream upstream_;
  bytes max_upstream_;
  std::unique_ptr<state> shared_ = std::make_unique<state>();
};

}  // namespace quarry::inline QUARRY_ABI
