// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Provides larger alignments than its upstream can. For an alignment above `max_upstream`, the
/// upstream's maximum, it requests `alignment` bytes more and returns an aligned address inside.
/// It stores the upstream's address in a table of its own, because the host may not be able to
/// access the memory. Accepts each kind of call that the upstream accepts. Not thread-safe, even if
/// the upstream is.
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
    auto const [slot, _] = bases_.try_emplace(nullptr, nullptr);  // may throw, so it comes first
    void* whole = nullptr;
    try {
      whole = call.allocate(upstream_, size + alignment, max_upstream_);
    } catch (...) {
      bases_.erase(slot);
      throw;
    }
    auto* const result = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(whole) + alignment - 1) & ~(alignment - 1));
    auto node = bases_.extract(slot);
    node.key() = result;
    node.mapped() = whole;
    bases_.insert(std::move(node));
    return result;
  }
  template <class Call>
  void deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    if (alignment <= max_upstream_) return call.deallocate(upstream_, pointer, size, alignment);
    auto const found = bases_.find(pointer);
    if (found == bases_.end()) return;
    call.deallocate(upstream_, found->second, size + alignment, max_upstream_);
    bases_.erase(found);
  }

  Upstream upstream_;
  bytes max_upstream_;
  std::unordered_map<void*, void*> bases_;  // returned address -> the upstream's address
};

}  // namespace quarry::inline QUARRY_ABI
