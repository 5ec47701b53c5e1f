// SPDX-License-Identifier: Apache-2.0
// Tells AddressSanitizer which bytes of a pool may not be accessed. In a build without
// AddressSanitizer the functions do nothing.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/host/registry/memory_location.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define QUARRY_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUARRY_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef QUARRY_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
/// Classes and functions that poison have other names with AddressSanitizer than without it. So a
/// program that is built with it and a library that is built without it share none of these
/// functions.
#define QUARRY_POISONS [[gnu::abi_tag("asan")]]
#else
#define QUARRY_ADDRESS_SANITIZER 0
#define QUARRY_POISONS
#endif

namespace quarry::inline QUARRY_ABI::detail {

/// This translation unit is built with AddressSanitizer.
QUARRY_POISONS inline constexpr bool has_address_sanitizer = QUARRY_ADDRESS_SANITIZER != 0;

/// Poisons [memory, memory + size). A last group of 8 bytes that is shared with other memory stays
/// as it was.
QUARRY_POISONS inline void poison([[maybe_unused]] void const* memory,
                                  [[maybe_unused]] bytes size) noexcept {
#if QUARRY_ADDRESS_SANITIZER
  __asan_poison_memory_region(memory, size);
#endif
}
/// Makes exactly [memory, memory + size) usable, if `memory` is a multiple of 8.
QUARRY_POISONS inline void unpoison([[maybe_unused]] void const* memory,
                                    [[maybe_unused]] bytes size) noexcept {
#if QUARRY_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, size);
#endif
}

/// Whether pools poison free memory of this resource: in builds with AddressSanitizer, if the host
/// can access the memory.
template <class Resource>
[[nodiscard]] QUARRY_POISONS bool is_poisoned([[maybe_unused]] Resource& resource) {
  if constexpr (has_address_sanitizer) {
    return host_can_touch(resource);
  } else {
    return false;
  }
}

}  // namespace quarry::inline QUARRY_ABI::detail
