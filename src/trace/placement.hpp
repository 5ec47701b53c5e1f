// SPDX-License-Identifier: Apache-2.0
// Places allocations whose lifetimes are known in one range: dynamic storage allocation.
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/bytes.hpp"

#include <cstdint>
#include <functional>
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

/// Takes the steps until now. May throw, which ends the placement.
using placement_progress = std::function<void(std::uint64_t steps)>;

/// Counts steps, and reports them every 2^22 steps.
class step_counter {
 public:
  explicit step_counter(placement_progress const& progress) : progress_{progress} {}
  void add(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ < next_report_) return;
    next_report_ = steps_ + (1 << 22);
    if (progress_) progress_(steps_);
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  placement_progress const& progress_;
  std::uint64_t steps_ = 0, next_report_ = 1 << 22;
};

/// Allocated bytes after each allocation. The maximum is a lower bound of the range.
[[nodiscard]] std::vector<bytes> live_bytes(placement_problem const& problem);

/// Pairs of allocations that live at one time: the steps that one placement needs at most.
[[nodiscard]] std::uint64_t overlaps(placement_problem const& problem);

/// Tries several methods, then restarts with changed orders. Ends when a result
/// exceeds `lower_bound` by 1/1000 at most, or after `max_steps`, but not before it has one result.
/// Calls `progress` every 2^22 steps.
[[nodiscard]] placement_result place(placement_problem const& problem, bytes lower_bound,
                                     std::uint64_t max_steps, std::uint64_t seed,
                                     placement_progress const& progress = {});

}  // namespace quarry::inline QUARRY_ABI::trace
