// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <span>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// A sequence of sizes that a program allocates again and again.
struct repetition {
  /// One allocation of the sequence.
  struct allocation {
    bytes size = 0;              ///< the most frequent size at this position
    std::uint32_t duration = 0;  ///< the longest lifetime, in allocations; 0: it has no place
  };

  std::uint32_t begin = 0;                ///< of the first part that repeats the sequence
  double repetitions = 0;                 ///< in all parts
  std::vector<allocation> sequence = {};  ///< empty: nothing repeats
};

/// The sequence that repeats three times at least in a row, in parts that have half of all
/// allocations together at least. Other allocations may lie between the parts, such as those of an
/// evaluation. Within a part, single sizes may differ, such as that of a batch. Lifetimes may
/// differ: the longest one counts, unless most exceed the sequence. O(n).
[[nodiscard]] repetition find_repetition(std::span<lifetime const> allocations);

}  // namespace quarry::inline QUARRY_ABI::trace
