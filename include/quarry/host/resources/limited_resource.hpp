// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/atomic_counter.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Limits the requested bytes in use to `maximum`: an allocation beyond it throws `out_of_memory`.
/// Accepts each kind of call that the upstream accepts.
///
/// Threads may share it if they may share the upstream; it has no lock. A request counts before the
/// upstream serves it, so the upstream never has more than `maximum` bytes in use. A request that
/// the upstream then refuses counts for that time, and may make another thread's request fail.
///
/// A null pointer changes no count, and neither does a pointer that the upstream refuses, as a pool
/// does at a double free. Adaptors between this one and the pool pass its refusal on.
///
/// Memory order: a request adds its bytes before it calls the upstream. They are subtracted after
/// the upstream has freed or refused them. Each change synchronises with all earlier changes
/// (atomic_counter). So the upstream's deallocation happens before the allocation that uses its
/// room.
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

  [[nodiscard]] bytes allocated() const { return allocated_.load(); }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<limited_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    bytes allocated = 0;
    if (!allocated_.add_within(size, maximum_, allocated)) refuse(size, allocated);
    try {
      return call.allocate(upstream_, size, alignment);
    } catch (...) {
      allocated_.add(bytes{0} - size);
      throw;
    }
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    bool const has_freed = call.deallocate(upstream_, pointer, size, alignment);
    if (has_freed && pointer != nullptr) allocated_.add(bytes{0} - size);
    return has_freed;
  }
  [[noreturn]] void refuse(bytes size, bytes allocated) const {
    throw out_of_memory{
        "limited_resource", size,
        std::to_string(allocated) + " of " + std::to_string(maximum_) + " bytes are in use"};
  }

  Upstream upstream_;
  bytes maximum_;
  detail::atomic_counter<bytes> allocated_;
};

}  // namespace quarry::inline QUARRY_ABI
