// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// In [begin, end), allocation i + length has the size and the lifetime of allocation i.
struct repetition {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t length = 0;  ///< 0: nothing repeats
};

/// The longest part that repeats one sequence three times at least, if it has half of all
/// allocations at least. O(n).
[[nodiscard]] repetition find_repetition(std::span<lifetime const> allocations);

}  // namespace quarry::inline QUARRY_ABI::trace
