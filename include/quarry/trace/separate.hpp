// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/routing.hpp"
#include "quarry/trace/event.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {

/// The properties of an allocation that a route compares.
enum class route_key : std::uint8_t { size, call_site, call_site_and_size, phase, phase_and_size };

/// All keys, from the simplest one on.
inline constexpr route_key all_route_keys[] = {route_key::size, route_key::call_site,
                                               route_key::call_site_and_size, route_key::phase,
                                               route_key::phase_and_size};
[[nodiscard]] QUARRY_API char const* name_of(route_key key);
/// Returns the key with this name. Throws `bad_argument`, which lists the names.
[[nodiscard]] QUARRY_API route_key route_key_named(std::string const& name);

struct separate_options {
  route_key key = route_key::size;
  /// An allocation is temporary if its free comes fewer than this number of events later
  std::uint64_t temporary_events = 1000;
};

/// Learns from a part of a trace which allocations are temporary. Reads a batch of events at a
/// time.
///
/// Memory: proportional to the allocations in use, plus a counter for each combination of call
/// site, phase and power of two of the size. Not thread-safe.
class QUARRY_API separation_learner {
 public:
  explicit separation_learner(std::uint64_t temporary_events);
  separation_learner(separation_learner&&) noexcept;
  separation_learner& operator=(separation_learner&&) noexcept;
  ~separation_learner();

  void add(std::span<event const> events);
  /// Returns the table for the events so far. A key has all sizes from a power of two up to the
  /// next. Routes a key to pool 1 if most of its allocations are temporary, otherwise to pool 0.
  /// The names of phases are in `call_sites`, as in a trace. Allocations that are not freed are
  /// permanent.
  [[nodiscard]] routing_table table(route_key key, name_table const& call_sites) const;

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

/// Returns the table for these events. O(events).
[[nodiscard]] QUARRY_API routing_table separate(std::span<event const> events,
                                                name_table const& call_sites,
                                                separate_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
