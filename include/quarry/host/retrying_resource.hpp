// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/resource.hpp"

#include <functional>
#include <new>
#include <utility>

namespace quarry {

/// Asks `make_room(size)` when there is no memory, and then its upstream again, for as long as that
/// says true: it may give caches back, or write something out. When it says false the upstream's
/// exception goes on.
template <class Upstream>
class retrying_resource {
 public:
  retrying_resource(Upstream upstream, std::function<bool(bytes size)> make_room)
      : upstream_{std::move(upstream)}, make_room_{std::move(make_room)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    for (;;) {
      try {
        return upstream_.allocate(size, alignment);
      } catch (std::bad_alloc const&) {
        if (!make_room_ || !make_room_(size)) throw;
      }
    }
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    upstream_.deallocate(pointer, size, alignment);
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  Upstream upstream_;
  std::function<bool(bytes)> make_room_;
};

}  // namespace quarry
