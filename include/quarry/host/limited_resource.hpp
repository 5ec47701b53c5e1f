// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/resource.hpp"

#include <utility>

namespace quarry {

/// Gives no more than `most` bytes at a time, as they were asked for.
template <class Upstream>
class limited_resource {
 public:
  limited_resource(Upstream upstream, bytes most) : upstream_{std::move(upstream)}, most_{most} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    if (size > most_ - live_)
      throw out_of_memory{"limited_resource", size,
                          std::to_string(live_) + " of " + std::to_string(most_) + " are in use"};
    void* const result = upstream_.allocate(size, alignment);
    live_ += size;
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    upstream_.deallocate(pointer, size, alignment);
    live_ -= size;
  }

  [[nodiscard]] bytes live() const { return live_; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  Upstream upstream_;
  bytes most_;
  bytes live_ = 0;
};

}  // namespace quarry
