// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/resource.hpp"

#include <exception>
#include <functional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Memory that the user's functions give: `give(size, alignment)`, nullptr if there is none, and
/// `take(pointer, size, alignment)`. What `give` throws passes through; `take` must not throw.
///
/// `location` says what memory it is: pools and operations go by that. What CUDA contradicts is
/// taken back, and `allocate` throws `resource_failed`.
class callback_resource {
 public:
  using giver = std::function<void*(bytes size, bytes alignment)>;
  using taker = std::function<void(void* pointer, bytes size, bytes alignment)>;

  /// Throws `bad_argument` if either is empty.
  callback_resource(giver give, taker take, memory_location location)
      : give_{std::move(give)}, take_{std::move(take)}, place_{location} {
    if (!give_ || !take_) throw bad_argument{"callback_resource: a function is empty"};
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("callback_resource", alignment);
    void* const result = give_(size, alignment);
    if (result == nullptr)
      throw out_of_memory{"callback_resource", size, "its function gave nullptr"};
    try {
      if (reinterpret_cast<std::uintptr_t>(result) % alignment != 0) {
        throw resource_failed{
            "callback_resource",
            "its function gave an address that is no multiple of " + std::to_string(alignment)};
      }
      check_place("callback_resource", result, place_);
    } catch (...) {
      take_(result, size, alignment);
      throw;
    }
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    take_(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return place_; }

 private:
  giver give_;
  taker take_;
  memory_location place_;
};

static_assert(memory_resource<callback_resource>);

}  // namespace quarry::inline QUARRY_ABI
