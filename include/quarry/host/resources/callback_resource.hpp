// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/callback_memory.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"

#include <functional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Memory that functions of the user allocate and free. `allocate(size, alignment)` returns nullptr
/// if it has no memory; its exceptions propagate. `deallocate(pointer, size, alignment)` must not
/// throw. The functions get no stream: see `stream_callback_resource`.
///
/// `location` states where the memory lies; pools and operations rely on it. If CUDA reports
/// another location, `allocate` frees the memory and throws `resource_failed`.
class callback_resource {
 public:
  using allocate_function = std::function<void*(bytes size, bytes alignment)>;
  using deallocate_function = std::function<void(void* pointer, bytes size, bytes alignment)>;

  /// Throws `bad_argument` if a function is empty.
  callback_resource(allocate_function allocate, deallocate_function deallocate,
                    memory_location location)
      : allocate_{std::move(allocate)}, deallocate_{std::move(deallocate)}, location_{location} {
    if (!allocate_ || !deallocate_)
      throw bad_argument{"callback_resource: the allocating or the freeing function is empty"};
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("callback_resource", alignment);
    void* const result = allocate_(size, alignment);
    return detail::checked_callback_memory("callback_resource", result, size, alignment, location_,
                                           [&] { deallocate_(result, size, alignment); });
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    deallocate_(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return location_; }

 private:
  allocate_function allocate_;
  deallocate_function deallocate_;
  memory_location location_;
};

static_assert(memory_resource<callback_resource>);

}  // namespace quarry::inline QUARRY_ABI
