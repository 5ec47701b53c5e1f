// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <functional>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Calls `make_room(size)` when an allocation throws `std::bad_alloc`. Repeats the allocation as
/// long as `make_room` returns true. `make_room` may free caches, or write data out. If it returns
/// false, the upstream's exception propagates.
///
/// The upstream is a resource, a pool, or a stream-ordered source. This adaptor has no lock, so
/// `make_room` may allocate and free through it. Put it over a pool that has a lock. Under that
/// pool `make_room` would run with the lock held, and would wait forever if it used the pool.
/// Threads may share it if they may share the upstream and `make_room`.
template <class Upstream>
class failure_callback_resource
    : public resource_adaptor<failure_callback_resource<Upstream>, Upstream> {
 public:
  using room_maker = std::function<bool(bytes size)>;

  failure_callback_resource(Upstream upstream, room_maker make_room)
      : upstream_{std::move(upstream)}, make_room_{std::move(make_room)} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved, such as a
  /// stream pool with its lock.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  failure_callback_resource(room_maker make_room, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), make_room_{std::move(make_room)} {}

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<failure_callback_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    for (;;) {
      try {
        return call.allocate(upstream_, size, alignment);
      } catch (std::bad_alloc const&) {
        if (!make_room_ || !make_room_(size)) throw;
      }
    }
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    return call.deallocate(upstream_, pointer, size, alignment);
  }

  Upstream upstream_;
  room_maker make_room_;
};

}  // namespace quarry::inline QUARRY_ABI
