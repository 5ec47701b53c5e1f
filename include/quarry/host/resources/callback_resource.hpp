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

/// Memory of the user's functions. `give(size, alignment)` allocates, and returns nullptr if no
/// memory is left. `take(pointer, size, alignment)` frees. Exceptions of `give` propagate; `take`
/// must not throw.
///
/// `location` states where the memory lies; pools and operations rely on it. If CUDA reports
/// another location, `allocate` frees the memory and throws `resource_failed`.
class callback_resource {
 public:
  using giver = std::function<void*(bytes size, bytes alignment)>;
  using taker = std::function<void(void* pointer, bytes size, bytes alignment)>;

  /// Throws `bad_argument` if a function is empty.
  callback_resource(giver give, taker take, memory_location location)
      : give_{std::move(give)}, take_{std::move(take)}, location_{location} {
    if (!give_ || !take_)
      throw bad_argument{"callback_resource: the allocating or the freeing function is empty"};
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("callback_resource", alignment);
    void* const result = give_(size, alignment);
    if (result == nullptr)
      throw out_of_memory{"callback_resource", size, "the allocating function returned nullptr"};
    try {
      if (reinterpret_cast<std::uintptr_t>(result) % alignment != 0) {
        throw resource_failed{
            "callback_resource",
            "the allocating function returned an address that is not a multiple of " +
                std::to_string(alignment)};
      }
      check_location("callback_resource", result, location_);
    } catch (...) {
      take_(result, size, alignment);
      throw;
    }
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    take_(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return location_; }

 private:
  giver give_;
  taker take_;
  memory_location location_;
};

static_assert(memory_resource<callback_resource>);

}  // namespace quarry::inline QUARRY_ABI
