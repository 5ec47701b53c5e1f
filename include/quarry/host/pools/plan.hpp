// SPDX-License-Identifier: Apache-2.0
// Plans: a place in one range for each allocation of a program. `trace::make_plan` computes a plan
// from a recorded trace, and a `planned_pool` serves a program from the plan.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The offset of an allocation that has no place in the plan.
inline constexpr bytes not_planned = std::numeric_limits<bytes>::max();

/// One allocation of a plan. Allocations are numbered from 0, in the order of their requests.
struct planned_allocation {
  bytes size = 0;                  ///< requested bytes, rounded up to the plan's alignment; not 0
  bytes offset = not_planned;      ///< the offset of the place in the plan's range
  std::uint64_t freed_before = 0;  ///< the number of the next allocation after its free
  /// The smallest request that the place serves, rounded up, if sizes vary between repetitions; 0:
  /// only requests of `size` bytes
  bytes min_size = 0;

  friend bool operator==(planned_allocation const&, planned_allocation const&) = default;
};

/// A plan: a place in a range of `size` bytes for each allocation of a program.
///
/// The allocations from `period_begin` on repeat: after the last allocation, allocation
/// `period_begin` follows again. An allocation of the period may be freed in the next repetition;
/// then `freed_before` exceeds the number of allocations. A plan without a period has
/// `period_begin` equal to the number of allocations.
///
/// Invariants, checked by `audit`:
///   1. `alignment` is a power of two from 16 to 16384; sizes and offsets are multiples of it, and
///      `min_size` is `size` at most;
///   2. each planned allocation lies in [0, size);
///   3. allocations that live at one time do not overlap.
struct plan {
  bytes alignment = 256;
  bytes size = 0;
  bytes lower_bound = 0;  ///< the peak of the planned allocations: no plan can be smaller
  std::uint64_t period_begin = 0;
  std::string method = {};  ///< how the allocations were placed, for reports
  std::vector<planned_allocation> allocations = {};

  [[nodiscard]] bool has_period() const { return period_begin < allocations.size(); }
  friend bool operator==(plan const&, plan const&) = default;
};

/// The maximum number of allocations of a plan, which takes 32 bytes for each.
inline constexpr std::size_t max_plan_allocations = std::size_t{1} << 24;

/// Describes at most 100 violated invariants of a plan. Returns no texts if the plan is valid. O(n
/// log n) for n allocations.
[[nodiscard]] QUARRY_API std::vector<std::string> audit(plan const& checked);

/// Thrown if a file is not a plan, or is damaged. The message names the file, the line and the
/// reason.
class QUARRY_API bad_plan : public error_of<std::runtime_error> {
  using error_of::error_of;
};
/// Writes a plan to a file (docs/format/plan.md). Throws `resource_failed`.
QUARRY_API void save(plan const& saved, std::string const& path);
/// Reads a plan from a file. Throws `bad_plan` if the file is not a plan, or if a checksum or an
/// invariant is violated. Throws `resource_failed` if the file cannot be read.
[[nodiscard]] QUARRY_API plan load_plan(std::string const& path);

}  // namespace quarry::inline QUARRY_ABI
