// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// Places the large allocations of a problem in the reverse order of time, like a pool whose clock
/// runs backwards. Where caches grow, each cache then fits where a larger cache was.
///
/// Backwards in time, an allocation arrives at its free and leaves at its allocation. It goes next
/// to the live allocation that leaves at nearly the same moment, so that free ranges merge. If no
/// gap fits below the limit, the sweep goes back to an earlier moment and continues with other
/// random choices, as the search of TelaMalloc does (Maas et al., 2022). The more often it failed,
/// the further it goes back. After each success it lowers the limit, and goes back to where the
/// limit was exceeded first.
///
/// Allocations that wrap around a period lie at the bottom, and never leave.
class sweep_placement {
 public:
  /// Leaves out allocations smaller than `min_size`. `random` and `counter` must outlive this.
  sweep_placement(placement_problem const& problem, bytes min_size, std::mt19937_64& random,
                  step_counter& counter)
      : problem_{problem},
        random_{random},
        counter_{counter},
        offsets_(problem.allocations.size()) {
    bytes base = 0;
    for (std::uint32_t i = 0; i < problem.allocations.size(); ++i) {
      lifetime const& each = problem.allocations[i];
      if (each.size == 0) continue;
      if (each.wrapped_end != 0) {
        offsets_[i] = base;
        base += each.size;
        placed_.push_back(i);
      } else if (each.size >= min_size) {
        changes_.push_back({each.end, i, true});
        changes_.push_back({i, i, false});
        placed_.push_back(i);
      }
    }
    // backwards in time; at equal times, leaving comes first
    std::ranges::stable_sort(changes_, [](change const& a, change const& b) {
      return a.time != b.time ? a.time > b.time : a.arrives < b.arrives;
    });
    std::size_t live = 0, max_live = 0;
    for (change const& each : changes_) {
      live = each.arrives ? live + 1 : live - 1;
      max_live = std::max(max_live, live);
    }
    spacing_ = std::max<std::size_t>(64, changes_.size() * max_live / max_saved_entries);
    if (base != 0) state_.live.push_back({0, base, 0});
    state_.size = base;
    saved_.resize(changes_.size() / spacing_ + 1);
  }

  /// Looks for smaller and smaller ranges, until one has `target` bytes at most, or the counter has
  /// `max_steps`. Returns whether a range is smaller than `limit`; then `offsets` and `size` are
  /// those of the smallest one. The limit should be near the size of a good range: with a much
  /// higher limit the sweep stacks allocations, and uses few gaps. False if there are no large
  /// allocations.
  [[nodiscard]] bool place(bytes limit, bytes target, std::uint64_t max_steps) {
    if (changes_.empty()) return false;
    bytes const first_limit = limit;
    std::size_t at = 0, furthest = 0;
    unsigned failures = 0;
    while (counter_.steps() < max_steps) {
      if (at % spacing_ == 0) saved_[at / spacing_] = state_;
      if (at == changes_.size()) {
        best_ = offsets_;
        size_ = state_.size;
        if (size_ <= target) break;
        limit = size_ - std::max<bytes>((size_ - target) / 20, 1);
        at = return_to(first_above(limit));
        furthest = failures = 0;
      } else if (change const& next = changes_[at]; !next.arrives) {
        remove(next.allocation);
        ++at;
      } else if (insert(next.allocation, limit)) {
        ++at;
      } else {
        failures = at > furthest ? 1 : failures + 1;
        furthest = std::max(furthest, at);
        double const exponent = std::min(14.0, 2 + std::log2(double(1 + failures)));
        auto const distance = double(spacing_) * std::exp2(random_fraction() * exponent);
        at = return_to(double(at) > distance ? (at - std::size_t(distance)) / spacing_ : 0);
      }
    }
    return !best_.empty() && size_ < first_limit;
  }
  [[nodiscard]] std::vector<bytes> const& offsets() const { return best_; }
  [[nodiscard]] bytes size() const { return size_; }
  /// The allocations that this class places.
  [[nodiscard]] std::vector<std::uint32_t> const& placed() const { return placed_; }

 private:
  /// All saved states together have about this number of entries, 24 bytes each.
  static constexpr std::size_t max_saved_entries = std::size_t{1} << 21;
  /// A step of the counter is a comparison of greedy placement, which takes as long as about
  /// sixteen entries of a scan.
  static constexpr std::size_t entries_of_step = 16;

  struct change {
    std::uint32_t time, allocation;
    bool arrives;
  };
  struct entry {
    bytes begin, end;
    std::uint32_t leaves;  // the time, which runs backwards
  };
  struct state {
    std::vector<entry> live;  // by address
    bytes size = 0;           // the maximum end until now
  };

  [[nodiscard]] std::size_t return_to(std::size_t number) {
    state_ = saved_[number];
    return number * spacing_;
  }
  /// The last saved state before the range reached `limit`.
  [[nodiscard]] std::size_t first_above(bytes limit) const {
    std::size_t result = 0;
    while (result + 1 < saved_.size() && saved_[result + 1].size < limit) ++result;
    return result;
  }
  [[nodiscard]] double random_fraction() { return double(random_() >> 11) * 0x1p-53; }

  void remove(std::uint32_t allocation) {
    counter_.add(1);
    auto const found =
        std::ranges::lower_bound(state_.live, offsets_[allocation], {}, &entry::begin);
    state_.live.erase(found);
  }
  /// False, and changes nothing, if no gap below `limit` fits.
  [[nodiscard]] bool insert(std::uint32_t allocation, bytes limit) {
    bytes const size = problem_.allocations[allocation].size;
    auto& live = state_.live;
    counter_.add(live.size() / entries_of_step + 1);
    double best_cost = std::numeric_limits<double>::infinity();
    bytes offset = 0, gap_begin = 0;
    std::size_t index = 0;
    double distance_before = infinite_distance;
    for (std::size_t i = 0; i <= live.size(); ++i) {
      bool const is_last = i == live.size();
      bytes const gap_end = is_last ? limit - 1 : live[i].begin;
      if (gap_end >= gap_begin + size) {
        double const distance_after = is_last ? infinite_distance : distance(live[i], allocation);
        bool const fits_exactly = !is_last && gap_end - gap_begin == size;
        double const cost = (1 + (fits_exactly ? 0 : std::min(distance_before, distance_after))) *
                            (1 + noise * random_fraction());
        if (cost < best_cost) {
          best_cost = cost;
          offset = distance_after < distance_before ? gap_end - size : gap_begin;
          index = i;
        }
      }
      if (is_last) break;
      gap_begin = live[i].end;
      distance_before = distance(live[i], allocation);
    }
    if (best_cost == std::numeric_limits<double>::infinity()) return false;
    offsets_[allocation] = offset;
    live.insert(live.begin() + static_cast<std::ptrdiff_t>(index),
                {offset, offset + size, allocation});
    state_.size = std::max(state_.size, offset + size);
    return true;
  }
  /// The time between the moments at which the two leave.
  [[nodiscard]] static double distance(entry const& other, std::uint32_t allocation) {
    return std::abs(double(other.leaves) - double(allocation));
  }

  static constexpr double infinite_distance = 1e18;  // of the range's borders
  static constexpr double noise = 0.3;

  placement_problem const& problem_;
  std::mt19937_64& random_;
  step_counter& counter_;
  std::vector<change> changes_;
  std::vector<std::uint32_t> placed_;
  std::size_t spacing_ = 64;
  std::vector<state> saved_;  // one for every `spacing_` changes
  state state_;
  std::vector<bytes> offsets_, best_;
  bytes size_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
