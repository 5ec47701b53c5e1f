// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Limits the requested bytes in use to `maximum`: an allocation beyond it throws `out_of_memory`.
/// Accepts each kind of
/// call that the upstream accepts. Not thread-safe, even if the upstream is.
template <class Upstream>
class limited_resource : public resource_adaptor<limited_resource<Upstream>, Upstream> {
 public:
  limited_resource(Upstream upstream, bytes maximum)
      : upstream_{std::move(upstream)}, maximum_{maximum} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  limited_resource(bytes maximum, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), maximum_{maximum} {}

  [[nodiscard]] bytes allocated() const { return allocated_; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<limited_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    if (size > maximum_ - allocated_)
      throw out_of_memory{
          "limited_resource", size,
          std::to_string(allocated_) + " of " + std::to_string(maximum_) + " bytes are in use"};
    void* const result = call.allocate(upstream_, size, alignment);
    allocated_ += size;
    return result;
  }
  template <class Call>
  void deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    call.deallocate(upstream_, pointer, size, alignment);
    allocated_ -= size;
  }

  Upstream upstream_;
  bytes maximum_;
  bytes allocated_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
