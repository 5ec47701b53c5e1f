// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <algorithm>
#include <concepts>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Counts of a resource's calls since counting started. `allocated` and `allocations_in_use` become
/// negative if earlier allocations are freed.
struct resource_counts {
  std::int64_t allocated = 0, peak_allocated = 0;  // requested bytes
  std::int64_t allocations_in_use = 0, peak_allocations = 0;
  std::uint64_t total_allocated = 0;  // requested bytes of all allocations
  std::uint64_t total_allocations = 0;
  std::uint64_t failures = 0;  // allocations that threw std::bad_alloc
};

/// Counts allocations and deallocations. Accepts each kind of call that the upstream accepts. Not
/// thread-safe, even if the upstream is. `push` starts new counts for a part of the program. `pop`
/// ends that part, returns its counts, and adds them to those of the enclosing part.
template <class Upstream>
class statistics_resource : public resource_adaptor<statistics_resource<Upstream>, Upstream> {
 public:
  explicit statistics_resource(Upstream upstream) : upstream_{std::move(upstream)}, parts_(1) {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  explicit statistics_resource(std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), parts_(1) {}

  [[nodiscard]] resource_counts const& counts() const { return parts_.back(); }
  void push() { parts_.emplace_back(); }
  /// Throws `bad_argument` if no `push` is open.
  resource_counts pop() {
    if (parts_.size() == 1)
      throw bad_argument{"statistics_resource: pop() without an open push(); call push() first"};
    resource_counts const part = parts_.back();
    parts_.pop_back();
    resource_counts& outer = parts_.back();
    outer.peak_allocated = std::max(outer.peak_allocated, outer.allocated + part.peak_allocated);
    outer.peak_allocations =
        std::max(outer.peak_allocations, outer.allocations_in_use + part.peak_allocations);
    outer.allocated += part.allocated;
    outer.allocations_in_use += part.allocations_in_use;
    outer.total_allocated += part.total_allocated;
    outer.total_allocations += part.total_allocations;
    outer.failures += part.failures;
    return part;
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<statistics_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    void* result = nullptr;
    try {
      result = call.allocate(upstream_, size, alignment);
    } catch (std::bad_alloc const&) {
      ++parts_.back().failures;
      throw;
    }
    resource_counts& part = parts_.back();
    part.allocated += static_cast<std::int64_t>(size);
    part.total_allocated += size;
    ++part.total_allocations;
    ++part.allocations_in_use;
    part.peak_allocated = std::max(part.peak_allocated, part.allocated);
    part.peak_allocations = std::max(part.peak_allocations, part.allocations_in_use);
    return result;
  }
  template <class Call>
  void deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    call.deallocate(upstream_, pointer, size, alignment);
    parts_.back().allocated -= static_cast<std::int64_t>(size);
    --parts_.back().allocations_in_use;
  }

  Upstream upstream_;
  std::vector<resource_counts> parts_;
};

}  // namespace quarry::inline QUARRY_ABI
