// SPDX-License-Identifier: Apache-2.0
// Replays in a `pool`, or in several that a routing table selects.
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/routed_pool.hpp"
#include "trace/published_growth.hpp"
#include "trace/replay/memory_replay.hpp"
#include "trace/strategies.hpp"

#include <map>
#include <string>
#include <tuple>

namespace quarry::inline QUARRY_ABI::trace {

template <placement Placement, class Growth = detail::pool_growth<counted_resource, Placement>>
struct plain_pool {
  using pool_type = pool<counted_resource, Placement, Growth>;
  plain_pool(replay_options const& options, upstream_calls& calls, auto const&... growth)
      : memory{counted_resource{options.upstream, calls}, options.pool, growth...} {}
  void* allocate(event const& request) { return memory.allocate(request.size); }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return memory.counts(); }
  pool_type memory;
};

/// Looks up each size, call site and phase once.
template <placement Placement>
struct routed {
  routed(replay_options const& options, upstream_calls& calls)
      : call_sites{options.call_sites},
        memory{counted_resource{nullptr, calls}, *options.routing, options.pool} {}
  void* allocate(event const& request) {
    auto const [found, is_new] = known.try_emplace({request.size, request.call_site, phase}, 0);
    if (is_new)
      found->second =
          memory.table().pool_for(request.size, name_of(request.call_site), name_of(phase));
    return memory.allocate_from(found->second, request.size);
  }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return memory.counts(); }

  void begin_phase(event const& begun) { phase = begun.call_site; }
  [[nodiscard]] std::string name_of(std::uint32_t site) const {
    return call_sites != nullptr && site < call_sites->size() ? call_sites->name(site)
                                                              : std::string{};
  }

  name_table const* call_sites;
  std::uint32_t phase = 0;  // the number of its name
  std::map<std::tuple<bytes, std::uint32_t, std::uint32_t>, std::uint32_t> known;
  routed_pool<counted_resource, Placement> memory;
};

template <placement Placement>
std::unique_ptr<running_replay> replay_in_pool(replay_options const& options) {
  if (options.routing != nullptr) return replay_in<routed<Placement>>(options);
  if (!has_published_rules(options)) return replay_in<plain_pool<Placement>>(options);
  using growth = published_growth<counted_resource, Placement>;
  return replay_in<plain_pool<Placement, growth>>(options, options.rules);
}

}  // namespace quarry::inline QUARRY_ABI::trace
