// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/event.hpp"
#include "quarry/trace/routing.hpp"

#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// What a route tells allocations apart by.
enum class route_key : std::uint8_t { size, call_site, call_site_and_size, phase, phase_and_size };

struct separate_options {
  route_key key = route_key::size;
  /// An allocation that is freed within this number of events is temporary
  std::uint64_t temporary_events = 1000;
};

/// Learns from a part of a trace which allocations are temporary. Sizes count by their power of
/// two. Routes the keys of which most allocations are temporary to pool 1, all others to pool 0.
/// The names of phases are in `call_sites`, as in a trace.
/// Allocations that the part does not free are permanent. O(events).
[[nodiscard]] QUARRY_API routing_table separate(std::span<event const> events,
                                                name_table const& call_sites,
                                                separate_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace
