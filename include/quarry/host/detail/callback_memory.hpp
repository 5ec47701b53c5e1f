// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/resource.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Returns `memory`, which a function of the user allocated. Throws `out_of_memory` if it is
/// nullptr. Throws `resource_failed`, after a call of `free()`, if it is not a multiple of
/// `alignment`, or if CUDA reports another location than `stated`. Messages start with `resource`.
template <class Free>
[[nodiscard]] void* checked_callback_memory(char const* resource, void* memory, bytes size,
                                            bytes alignment, memory_location stated,
                                            Free const& free) {
  if (memory == nullptr)
    throw out_of_memory{resource, size, "the allocating function returned nullptr"};
  try {
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0) {
      throw resource_failed{
          resource, "the allocating function returned an address that is not a multiple of " +
                        std::to_string(alignment)};
    }
    check_location(resource, memory, stated);
  } catch (...) {
    free();
    throw;
  }
  return memory;
}

}  // namespace quarry::inline QUARRY_ABI::detail
