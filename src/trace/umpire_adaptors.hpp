// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// Whether one of Umpire's strategies is an adaptor: it has no memory of its own, and passes each
/// allocation to the allocator that it was made over. `type` may be mangled
/// (`N6umpire8strategy11SizeLimiterE`).
[[nodiscard]] inline bool is_umpire_adaptor(std::string_view type) {
  constexpr std::array<std::string_view, 8> adaptors{
      "ThreadSafeAllocator", "SizeLimiter", "NamedAllocationStrategy", "NamingShim",
      "AlignedAllocator",    "NumaPolicy",  "AllocationAdvisor",       "AllocationPrefetcher"};
  return std::ranges::any_of(
      adaptors, [&](std::string_view name) { return type.find(name) != std::string_view::npos; });
}

}  // namespace quarry::inline QUARRY_ABI::trace
