// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/separate.hpp"

#include "trace/address_map.hpp"

#include <bit>
#include <compare>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {
class separation_learner::implementation {
 public:
  explicit implementation(std::uint64_t temporary_events) : temporary_events_{temporary_events} {}

  void add(std::span<event const> events) {
    for (event const& each : events) {
      ++index_;
      if (each.kind == event_kind::phase) phase_ = each.call_site;
      if (each.address == 0) continue;
      if (each.kind == event_kind::allocate) {
        end(each.address);  // its free is missing
        auto const width = static_cast<unsigned>(std::bit_width(each.size));
        (void)live_.insert(each.address, {index_, &counts_[{each.call_site, phase_, width}]});
      } else if (each.kind == event_kind::deallocate) {
        end(each.address);
      }
    }
  }

  [[nodiscard]] routing_table table(route_key sort, name_table const& names) const {
    std::map<key, votes> keys;
    std::unordered_map<votes const*, votes*> sums;
    for (auto const& [whole, count] : counts_) {
      votes& sum = keys[part_of(whole, sort, names)];
      sum.temporary += count.temporary;
      sum.permanent += count.permanent;
      sums[&count] = &sum;
    }
    live_.for_each([&](birth const& never_freed) { ++sums.at(never_freed.counts)->permanent; });

    std::vector<route> routes;
    for (auto const& [id, count] : keys) {
      auto const [site, begun, width] = id;
      if (has_call_site(sort) && !can_be_routed(site, names)) continue;
      if (has_phase(sort) && !can_be_routed(begun, names)) continue;
      if (count.temporary <= count.permanent) continue;
      route found{.pool = 1, .call_site = names.name(site), .phase = names.name(begun)};
      if (has_size(sort)) {
        found.min_size = width == 0 ? 0 : bytes{1} << (width - 1);
        found.max_size = width == 0 ? 0 : found.min_size + (found.min_size - 1);
      }
      routes.push_back(std::move(found));
    }
    return routing_table{std::move(routes)};
  }

 private:
  /// What a route is learnt for; 0 where it does not matter. Sizes by their powers of two.
  struct key {
    std::uint32_t call_site = 0, phase = 0;
    unsigned width = 0;

    friend auto operator<=>(key const&, key const&) = default;

    struct hash {
      std::size_t operator()(key const& hashed) const {
        std::uint64_t const names = std::uint64_t{hashed.call_site} << 32 | hashed.phase;
        return (names ^ hashed.width) * 0x9e3779b97f4a7c15;
      }
    };
  };
  struct votes {
    std::uint64_t temporary = 0, permanent = 0;
  };
  struct birth {
    std::uint64_t event;
    votes* counts;
  };

  [[nodiscard]] static bool has_call_site(route_key sort) {
    return sort == route_key::call_site || sort == route_key::call_site_and_size;
  }
  [[nodiscard]] static bool has_phase(route_key sort) {
    return sort == route_key::phase || sort == route_key::phase_and_size;
  }
  [[nodiscard]] static bool has_size(route_key sort) {
    return sort != route_key::call_site && sort != route_key::phase;
  }
  /// The number, or that of an unknown name if `names` has no such number.
  [[nodiscard]] static std::uint32_t known(std::uint32_t number, name_table const& names) {
    return number < names.size() ? number : 0;
  }
  /// An empty name would match every call site, or every phase. A table cannot have line breaks.
  [[nodiscard]] static bool can_be_routed(std::uint32_t number, name_table const& names) {
    std::string const& name = names.name(number);
    return number != 0 && !name.empty() && name.find('\n') == std::string::npos;
  }
  /// The part of a key that matters.
  [[nodiscard]] static key part_of(key const& whole, route_key sort, name_table const& names) {
    return {has_call_site(sort) ? known(whole.call_site, names) : 0,
            has_phase(sort) ? known(whole.phase, names) : 0, has_size(sort) ? whole.width : 0};
  }

  void end(std::uint64_t address) {
    auto const found = live_.remove(address);
    if (!found) return;
    bool const is_temporary = index_ - found->event < temporary_events_;
    ++(is_temporary ? found->counts->temporary : found->counts->permanent);
  }

  std::uint64_t temporary_events_;
  std::uint64_t index_ = 0;  // of the present event
  std::uint32_t phase_ = 0;
  std::unordered_map<key, votes, key::hash> counts_;  // its entries do not move
  address_map<birth> live_;
};

separation_learner::separation_learner(std::uint64_t temporary_events)
    : implementation_{std::make_unique<implementation>(temporary_events)} {}
separation_learner::separation_learner(separation_learner&&) noexcept = default;
separation_learner& separation_learner::operator=(separation_learner&&) noexcept = default;
separation_learner::~separation_learner() = default;

void separation_learner::add(std::span<event const> events) { implementation_->add(events); }
routing_table separation_learner::table(route_key key, name_table const& call_sites) const {
  return implementation_->table(key, call_sites);
}

routing_table separate(std::span<event const> events, name_table const& call_sites,
                       separate_options const& options) {
  separation_learner learner{options.temporary_events};
  learner.add(events);
  return learner.table(options.key, call_sites);
}

}  // namespace quarry::inline QUARRY_ABI::trace
