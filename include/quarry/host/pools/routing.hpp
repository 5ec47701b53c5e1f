// SPDX-License-Identifier: Apache-2.0
// Separates temporary and permanent allocations: selects the pool that serves an allocation.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Sends the allocations of these sizes from this call site, in this phase of the program, to a
/// pool.
struct route {
  std::uint32_t pool = 0;
  bytes min_size = 0, max_size = no_limit;  ///< both limits are inclusive
  std::string call_site = {};               ///< empty: any call site
  std::string phase = {};                   ///< empty: any phase

  [[nodiscard]] bool matches(bytes size, std::string_view site,
                             std::string_view present_phase) const {
    return size >= min_size && size <= max_size && (call_site.empty() || call_site == site) &&
           (phase.empty() || phase == present_phase);
  }
  friend bool operator==(route const&, route const&) = default;
};

/// An ordered list of routes; the first matching route selects the pool. Allocations without a
/// matching route go to pool 0.
///
/// The format of a file is a line `quarry-routes 1`, then a line `POOL MIN_SIZE MAX_SIZE CALL_SITE`
/// for each route. The call site is the rest of the line and may be empty; `-` means that there is
/// no maximum. A line `phase NAME` sets the phase of the routes after it. After a line `phase`
/// without a name, the routes match in any phase.
class QUARRY_API routing_table {
 public:
  static constexpr std::uint32_t max_pools = 16;

  /// Throws `bad_argument` if a pool is not below `max_pools`, a minimum exceeds its maximum, or a
  /// call site or a phase has a line break.
  explicit routing_table(std::vector<route> routes = {});
  /// Reads a file that `save` wrote. Throws `resource_failed`, and `bad_argument` with the number
  /// of the line.
  [[nodiscard]] static routing_table load(std::string const& path);
  /// Writes the table to a file. Throws `resource_failed`.
  void save(std::string const& path) const;

  /// The number of pools that the routes need, at least 1.
  [[nodiscard]] std::uint32_t pools() const { return pools_; }
  [[nodiscard]] std::vector<route> const& routes() const { return routes_; }
  /// The number of the pool for an allocation. O(routes).
  [[nodiscard]] std::uint32_t pool_for(bytes size, std::string_view call_site = {},
                                       std::string_view phase = {}) const {
    for (route const& each : routes_) {
      if (each.matches(size, call_site, phase)) return each.pool;
    }
    return 0;
  }

 private:
  std::vector<route> routes_;
  std::uint32_t pools_ = 1;
};

}  // namespace quarry::inline QUARRY_ABI
