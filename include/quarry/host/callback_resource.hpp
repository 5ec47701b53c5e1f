// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/resource.hpp"

#include <exception>
#include <functional>
#include <utility>

namespace quarry {

/// Memory that the user's functions give: `give(size, alignment)`, nullptr if there is none, and
/// `take(pointer, size, alignment)`. What `give` throws passes through; `take` must not throw.
class callback_resource {
 public:
  using giver = std::function<void*(bytes size, bytes alignment)>;
  using taker = std::function<void(void* pointer, bytes size, bytes alignment)>;

  /// Throws `bad_argument` if either is empty.
  callback_resource(giver give, taker take) : give_{std::move(give)}, take_{std::move(take)} {
    if (!give_ || !take_) throw bad_argument{"callback_resource: a function is empty"};
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    void* const result = give_(size, alignment);
    if (result == nullptr)
      throw out_of_memory{"callback_resource", size, "its function gave nullptr"};
    if (reinterpret_cast<std::uintptr_t>(result) % alignment == 0) return result;
    take_(result, size, alignment);
    throw resource_failed{
        "callback_resource",
        "its function gave an address that is no multiple of " + std::to_string(alignment)};
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    take_(pointer, size, alignment);
  }

 private:
  giver give_;
  taker take_;
};

static_assert(memory_resource<callback_resource>);

}  // namespace quarry
