// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/separate.hpp"

#include "trace/address_map.hpp"

#include <bit>
#include <compare>
#include <map>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// What a route is learnt for; 0 where it does not matter. Sizes by their powers of two.
struct key {
  std::uint32_t call_site = 0, phase = 0;
  unsigned width = 0;

  friend auto operator<=>(key const&, key const&) = default;
};

struct votes {
  std::uint64_t temporary = 0, permanent = 0;
};

bool has_call_site(route_key sort) {
  return sort == route_key::call_site || sort == route_key::call_site_and_size;
}
bool has_phase(route_key sort) {
  return sort == route_key::phase || sort == route_key::phase_and_size;
}
bool has_size(route_key sort) { return sort != route_key::call_site && sort != route_key::phase; }

/// The number, or that of an unknown name if `names` has no such number.
std::uint32_t known(std::uint32_t number, name_table const& names) {
  return number < names.size() ? number : 0;
}

key key_of(event const& request, std::uint32_t phase, route_key sort, name_table const& names) {
  return {has_call_site(sort) ? known(request.call_site, names) : 0,
          has_phase(sort) ? known(phase, names) : 0,
          has_size(sort) ? static_cast<unsigned>(std::bit_width(request.size)) : 0};
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
  auto const end = [&](std::uint64_t address, std::uint64_t index) {
    auto const found = live.remove(address);
    if (!found) return;
    bool const is_temporary = index - found->event < options.temporary_events;
    ++(is_temporary ? found->counts->temporary : found->counts->permanent);
  };
  std::uint32_t phase = 0;
  for (std::uint64_t i = 0; i < events.size(); ++i) {
    event const& each = events[i];
    if (each.kind == event_kind::phase) phase = each.call_site;
    if (each.address == 0) continue;
    if (each.kind == event_kind::allocate) {
      end(each.address, i);  // its free is missing
      (void)live.insert(each.address, {i, &keys[key_of(each, phase, options.key, call_sites)]});
    } else if (each.kind == event_kind::deallocate) {
      end(each.address, i);
    }
  }
  live.for_each([](birth const& never_freed) { ++never_freed.counts->permanent; });

  std::vector<route> routes;
  for (auto const& [id, count] : keys) {
    auto const [site, begun, width] = id;
    if (has_call_site(options.key) && site == 0) continue;  // would match every call site
    if (has_phase(options.key) && begun == 0) continue;     // would match in every phase
    if (count.temporary <= count.permanent) continue;
    route found{.pool = 1, .call_site = call_sites.name(site), .phase = call_sites.name(begun)};
    if (has_size(options.key)) {
      found.min_size = width == 0 ? 0 : bytes{1} << (width - 1);
      found.max_size = width == 0 ? 0 : found.min_size + (found.min_size - 1);
    }
    routes.push_back(std::move(found));
  }
  return routing_table{std::move(routes)};
}

}  // namespace quarry::inline QUARRY_ABI::trace
