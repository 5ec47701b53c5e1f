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

/// What went through a resource since a moment. `allocated` counts from there on, and may be
/// negative.
struct resource_counts {
  std::int64_t allocated = 0, peak_allocated = 0;  // bytes
  std::int64_t allocations = 0, peak_allocations = 0;
  std::uint64_t total_allocated = 0;  // bytes in all
  std::uint64_t total_allocations = 0;
  std::uint64_t failures = 0;
};

/// Counts what passes through, by whichever kind of call. One thread at a time, whatever the
/// upstream allows. `push` begins to count anew for a part of the program; `pop` ends
/// that part, gives its counts and adds them to those of the part around it.
template <class Upstream>
class statistics_resource : public resource_adaptor<statistics_resource<Upstream>, Upstream> {
 public:
  explicit statistics_resource(Upstream upstream) : upstream_{std::move(upstream)}, parts_(1) {}
  /// For an upstream that cannot be moved: makes it, from its constructor's arguments.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  explicit statistics_resource(std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), parts_(1) {}

  [[nodiscard]] resource_counts const& counts() const { return parts_.back(); }
  void push() { parts_.emplace_back(); }
  /// Throws `bad_argument` if no `push` is open.
  resource_counts pop() {
    if (parts_.size() == 1) throw bad_argument{"statistics_resource: pop without a push"};
    resource_counts const part = parts_.back();
    parts_.pop_back();
    resource_counts& around = parts_.back();
    around.peak_allocated = std::max(around.peak_allocated, around.allocated + part.peak_allocated);
    around.peak_allocations =
        std::max(around.peak_allocations, around.allocations + part.peak_allocations);
    around.allocated += part.allocated;
    around.allocations += part.allocations;
    around.total_allocated += part.total_allocated;
    around.total_allocations += part.total_allocations;
    around.failures += part.failures;
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
    resource_counts& now = parts_.back();
    now.allocated += static_cast<std::int64_t>(size);
    now.total_allocated += size;
    ++now.total_allocations;
    ++now.allocations;
    now.peak_allocated = std::max(now.peak_allocated, now.allocated);
    now.peak_allocations = std::max(now.peak_allocations, now.allocations);
    return result;
  }
  template <class Call>
  void deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    call.deallocate(upstream_, pointer, size, alignment);
    parts_.back().allocated -= static_cast<std::int64_t>(size);
    --parts_.back().allocations;
  }

  Upstream upstream_;
  std::vector<resource_counts> parts_;
};

}  // namespace quarry::inline QUARRY_ABI
