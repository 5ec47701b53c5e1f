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

/// What a route tells allocations apart by.
enum class route_key : std::uint8_t { size, call_site, call_site_and_size, phase, phase_and_size };

/// All keys, the simplest one first.
inline constexpr route_key all_route_keys[] = {route_key::size, route_key::call_site,
                                               route_key::call_site_and_size, route_key::phase,
                                               route_key::phase_and_size};
[[nodiscard]] QUARRY_API char const* name_of(route_key key);
/// Throws `bad_argument`, which lists the names.
[[nodiscard]] QUARRY_API route_key route_key_named(std::string const& name);

struct separate_options {
  route_key key = route_key::size;
  /// An allocation that is freed within this number of events is temporary
  std::uint64_t temporary_events = 1000;
};

/// Learns from a part of a trace which allocations are temporary, a batch of events at a time.
///
/// Memory: the allocations in use, and a counter for each call site, phase and power of two of the
/// size that occur together. Not thread-safe.
class QUARRY_API separation_learner {
 public:
  explicit separation_learner(std::uint64_t temporary_events);
  separation_learner(separation_learner&&) noexcept;
  separation_learner& operator=(separation_learner&&) noexcept;
  ~separation_learner();

  void add(std::span<event const> events);
  /// What the events until now teach. Sizes count by their power of two. Routes the keys of which
  /// most allocations are temporary to pool 1, all others to pool 0. The names of phases are in
  /// `call_sites`, as in a trace. Allocations that are not freed are permanent.
  [[nodiscard]] routing_table table(route_key key, name_table const& call_sites) const;

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

/// The table that these events teach. O(events).
[[nodiscard]] QUARRY_API routing_table separate(std::span<event const> events,
                                                name_table const& call_sites,
                                                separate_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
