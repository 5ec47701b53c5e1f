// SPDX-License-Identifier: Apache-2.0
// What AddressSanitizer is told of a pool's memory. Everything here is empty in a build without it.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/host/memory_place.hpp"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define QUARRY_ADDRESS_SANITIZER 1
/// Classes that poison have other names with AddressSanitizer than without it. So a program with it
/// and a library without it share none of their functions.
#define QUARRY_POISONS [[gnu::abi_tag("asan")]]
#else
#define QUARRY_ADDRESS_SANITIZER 0
#define QUARRY_POISONS
#endif

namespace quarry {

/// This translation unit is built with AddressSanitizer.
inline constexpr bool has_address_sanitizer = QUARRY_ADDRESS_SANITIZER != 0;

/// Makes [memory, memory + size) an error to touch. What shares its last 8 bytes with other memory
/// stays as it was.
inline void poison([[maybe_unused]] void const* memory, [[maybe_unused]] bytes size) noexcept {
#if QUARRY_ADDRESS_SANITIZER
  __asan_poison_memory_region(memory, size);
#endif
}
/// Makes exactly [memory, memory + size) usable, if `memory` is a multiple of 8.
inline void unpoison([[maybe_unused]] void const* memory, [[maybe_unused]] bytes size) noexcept {
#if QUARRY_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, size);
#endif
}

/// The host may touch what the resource gives, so that it is poisoned while it is free. Not of a
/// simulated resource, nor of what has one upstream.
template <class Resource>
[[nodiscard]] bool is_poisoned(Resource& resource) {
  if constexpr (has_address_sanitizer && !simulated<Resource>) {
    if constexpr (requires { resource.upstream(); }) {
      return is_poisoned(resource.upstream()) && place_of(resource).is_touchable();
    } else {
      return place_of(resource).is_touchable();
    }
  } else {
    return false;
  }
}

}  // namespace quarry
