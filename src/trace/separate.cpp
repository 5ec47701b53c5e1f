// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/separate.hpp"

#include "trace/address_map.hpp"

#include <bit>
#include <map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// A call site, and a power of two of the size; 0 where the key has neither.
using key = std::pair<std::uint32_t, unsigned>;

struct votes {
  std::uint64_t temporary = 0, permanent = 0;
};

key key_of(event const& request, route_key sort) {
  bool const has_site = sort != route_key::size && request.call_site != 0;
  bool const has_size = sort != route_key::call_site;
  return {has_site ? request.call_site : 0,
          has_size ? static_cast<unsigned>(std::bit_width(request.size)) : 0};
}

}  // namespace

routing_table separate(std::span<event const> events, name_table const& call_sites,
                       separate_options const& options) {
  struct birth {
    std::uint64_t event;
    votes* counts;
  };
  std::map<key, votes> keys;
  address_map<birth> live;
  auto const end = [&](std::uint64_t address, std::uint64_t now) {
    auto const found = live.remove(address);
    if (!found) return;
    bool const is_temporary = now - found->event < options.temporary_events;
    ++(is_temporary ? found->counts->temporary : found->counts->permanent);
  };
  for (std::uint64_t i = 0; i < events.size(); ++i) {
    event const& each = events[i];
    if (each.address == 0) continue;
    if (each.kind == event_kind::allocate) {
      end(each.address, i);  // its free is missing
      (void)live.insert(each.address, {i, &keys[key_of(each, options.key)]});
    } else if (each.kind == event_kind::deallocate) {
      end(each.address, i);
    }
  }
  live.for_each([](birth const& never_freed) { ++never_freed.counts->permanent; });

  std::vector<route> routes;
  for (auto const& [id, count] : keys) {
    auto const [site, width] = id;
    if (options.key == route_key::call_site && site == 0) continue;  // would match every call site
    if (count.temporary <= count.permanent) continue;
    route found{.pool = 1, .call_site = call_sites.name(site)};
    if (options.key != route_key::call_site) {
      found.min_size = width == 0 ? 0 : bytes{1} << (width - 1);
      found.max_size = width == 0 ? 0 : found.min_size + (found.min_size - 1);
    }
    routes.push_back(std::move(found));
  }
  return routing_table{std::move(routes)};
}

}  // namespace quarry::inline QUARRY_ABI::trace
