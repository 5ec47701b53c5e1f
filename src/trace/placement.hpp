// SPDX-License-Identifier: Apache-2.0
// Places allocations whose lifetimes are known in one range: dynamic storage allocation.
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/bytes.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The end of an allocation that a trace does not free. No problem for `place` has it.
inline constexpr std::uint32_t not_freed = ~std::uint32_t{0};

/// The time at which allocation i begins is i. An allocation lives in [i, end), and in
/// [wrap_begin, wrapped_end) too if its free wraps around the end of a period.
struct lifetime {
  bytes size = 0;  ///< 0: the allocation is not placed
  std::uint32_t end = 0;
  std::uint32_t wrapped_end = 0;  ///< 0: does not wrap
};

struct placement_problem {
  std::vector<lifetime> allocations;
  std::uint32_t wrap_begin = 0;
};

struct placement_result {
  std::vector<bytes> offsets;
  bytes size = 0;
  std::string method;
};

/// Allocated bytes after each allocation. The maximum is a lower bound of the range.
[[nodiscard]] std::vector<bytes> live_bytes(placement_problem const& problem);

/// Pairs of allocations that live at one time: the steps that one placement needs at most.
[[nodiscard]] std::uint64_t overlaps(placement_problem const& problem);

/// Tries several methods, then restarts with changed orders. Ends when a result
/// exceeds `lower_bound` by 1/1000 at most, or after `max_steps`, but not before it has one result.
[[nodiscard]] placement_result place(placement_problem const& problem, bytes lower_bound,
                                     std::uint64_t max_steps, std::uint64_t seed);

}  // namespace quarry::inline QUARRY_ABI::trace
