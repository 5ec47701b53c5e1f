// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <span>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// A sequence of allocations that a program makes again and again.
struct repetition {
  /// One allocation of the sequence.
  struct allocation {
    bytes size = 0;              ///< that nine of ten repetitions do not exceed
    bytes min_size = 0;          ///< of all repetitions; 0 if the size is nearly always `size`
    std::uint32_t duration = 0;  ///< a lifetime, in allocations, that nine of ten do not exceed; 0:
                                 ///< it has no place, because it mostly outlives the sequence
  };

  std::uint32_t begin = 0;                ///< of the first long part that repeats the sequence
  double repetitions = 0;                 ///< in all parts
  std::vector<allocation> sequence = {};  ///< empty: nothing repeats
};

/// The sequence that repeats three times at least in a row, in parts that have half of all
/// allocations and bytes together at least. Other allocations may lie between the parts, such as
/// those of an evaluation. Within a part, single keys may differ. The key of an allocation is what
/// tells it: for example its size, or its call site. O(n log n).
[[nodiscard]] repetition find_repetition(std::span<lifetime const> allocations,
                                         std::span<std::uint64_t const> keys);

}  // namespace quarry::inline QUARRY_ABI::trace
