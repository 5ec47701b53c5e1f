// SPDX-License-Identifier: Apache-2.0
#include "trace/placement.hpp"

#include "trace/greedy_placement.hpp"
#include "trace/skyline_placement.hpp"
#include "trace/sweep_placement.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

using order = std::vector<std::uint32_t>;

constexpr int variants_in_round = 8;
constexpr int advances_in_round = 16;
constexpr int max_rounds_without_gain = 12;  // then the search ends

/// Looks for the smallest range, one method after the other.
///
/// Real traces differ in what suits them. Skylines reach the lower bound on training steps. Growing
/// caches pack best from the latest free back to the first, because the largest caches come last.
class search {
 public:
  search(placement_problem const& problem, bytes lower_bound, std::uint64_t max_steps,
         std::uint64_t seed, placement_progress const& progress)
      : problem_{problem},
        lower_bound_{lower_bound},
        target_{lower_bound + lower_bound / 1000},
        max_steps_{max_steps},
        random_{seed},
        counter_{progress},
        greedy_{problem, counter_} {
    for (std::uint32_t i = 0; i < problem.allocations.size(); ++i) {
      if (problem.allocations[i].size != 0) all_.push_back(i);
    }
  }

  [[nodiscard]] placement_result run() {
    best_.offsets.assign(problem_.allocations.size(), 0);
    if (all_.empty()) return best_;
    try_order("greedy, latest free first", latest_free_first({}), no_limit);
    try_skyline("skyline, largest area first", skyline_rule::area);
    try_skyline("skyline, longest lifetime first", skyline_rule::duration);
    try_sorted("greedy, largest first", [&](auto i) { return double(at(i).size); });
    try_sorted("greedy, longest lifetime first", [&](auto i) { return duration(i); });
    try_sorted("greedy, largest area first",
               [&](auto i) { return duration(i) * double(at(i).size); });
    try_sorted("greedy, in the order of allocation", [&](auto i) { return -double(i); });
    try_sweep();
    for (int rounds = 0; rounds < max_rounds_without_gain && !is_over(); ++rounds) {
      bytes const before = best_.size;
      for (int i = 0; i < variants_in_round && !is_over(); ++i) {
        bytes const size = best_.size;
        variant const tried = random_variant();
        try_order("greedy, latest free first, varied", latest_free_first(tried), size);
        if (best_.size < size) best_variant_ = tried;
      }
      for (int i = 0; i < advances_in_round && !is_over(); ++i) advance_obstacles();
      raise_obstacles();
      if (best_.size < before) rounds = -1;
    }
    return std::move(best_);
  }

 private:
  /// How an order by the latest free is varied.
  struct variant {
    double duration_weight = 0;  // frees move back by this part of the lifetime
    bytes min_size = 0;          // smaller allocations come last, by size
    unsigned tie = 0;
  };

  [[nodiscard]] lifetime const& at(std::uint32_t i) const { return problem_.allocations[i]; }
  [[nodiscard]] double duration(std::uint32_t i) const {
    double const wrapped = at(i).wrapped_end == 0 ? 0 : at(i).wrapped_end - problem_.wrap_begin;
    return at(i).end - i + wrapped;
  }
  [[nodiscard]] bool is_over() const {
    return best_.size <= target_ || counter_.steps() >= max_steps_;
  }

  template <class Key>
  void try_sorted(char const* method, Key const& key) {
    if (is_over()) return;
    std::vector<double> keys(problem_.allocations.size());
    for (std::uint32_t const i : all_) keys[i] = key(i);
    order sorted = all_;
    std::ranges::stable_sort(sorted, [&](auto a, auto b) { return keys[a] > keys[b]; });
    try_order(method, sorted, best_.size);
  }

  [[nodiscard]] order latest_free_first(variant const& chosen) const {
    std::vector<double> keys(problem_.allocations.size());
    for (std::uint32_t const i : all_) keys[i] = at(i).end - chosen.duration_weight * duration(i);
    order sorted = all_;
    std::ranges::stable_sort(sorted, [&](auto a, auto b) {
      bool const is_small = at(a).size < chosen.min_size;
      if (is_small != (at(b).size < chosen.min_size)) return !is_small;
      if (is_small) return at(a).size > at(b).size;
      if (keys[a] != keys[b]) return keys[a] > keys[b];
      return chosen.tie == 0 ? a < b : chosen.tie == 1 ? a > b : at(a).size > at(b).size;
    });
    return sorted;
  }
  /// Every second variant is near the best one until now.
  [[nodiscard]] variant random_variant() {
    variant result = best_variant_;
    if (result.min_size != 0 && random_() % 2 == 0) {
      result.duration_weight *= std::pow(10, random_fraction() - 0.5);
      double const factor = std::pow(10, (random_fraction() - 0.5) / 2);
      result.min_size = static_cast<bytes>(double(result.min_size) * factor) + 1;
    } else {
      result.duration_weight = std::pow(10, -1 - 3 * random_fraction());
      if (random_() % 4 == 0) result.duration_weight = -result.duration_weight;
      double const part = std::pow(10, -2 - 2 * random_fraction());
      result.min_size = static_cast<bytes>(double(lower_bound_) * part) + 1;
    }
    result.tie = static_cast<unsigned>(random_() % 3);
    return result;
  }
  /// In [0, 1). The standard library's distributions differ from one library to another.
  [[nodiscard]] double random_fraction() { return double(random_() >> 11) * 0x1p-53; }

  /// Places in this order. Stops when the range reaches `limit`.
  void try_order(char const* method, order const& sorted, bytes limit) {
    auto const end = best_.size == 0 ? std::numeric_limits<std::uint64_t>::max() : max_steps_;
    bytes const size = greedy_.place(sorted, limit, end);
    if (size == greedy_placement::stopped) return;
    if (best_.size == 0 || size < best_.size) {
      best_ = {greedy_.offsets(), size, method};
      best_order_ = sorted;
    }
  }
  void try_skyline(char const* method, skyline_rule rule) {
    if (is_over()) return;
    skyline_placement skyline{problem_, rule, counter_};
    if (!skyline.place(best_.size, max_steps_)) return;
    best_ = {skyline.offsets(), skyline.size(), method};
    best_order_ = all_;
    sort_by_offset(best_order_);
  }

  /// Sweeps over the large allocations with half of the steps that are left, and places the small
  /// ones around them.
  void try_sweep() {
    if (is_over()) return;
    bytes const min_size = std::max<bytes>(1, lower_bound_ / smallest_of_sweep);
    sweep_placement sweep{problem_, min_size, random_, counter_};
    if (!sweep.place(best_.size, target_, counter_.steps() + (max_steps_ - counter_.steps()) / 2))
      return;
    std::vector<bool> is_placed(problem_.allocations.size());
    for (std::uint32_t const i : sweep.placed()) is_placed[i] = true;
    order small;
    std::ranges::copy_if(all_, std::back_inserter(small), [&](auto i) { return !is_placed[i]; });
    std::ranges::stable_sort(small, [&](auto a, auto b) { return at(a).size > at(b).size; });
    bytes const size =
        greedy_.place_around(sweep.placed(), sweep.offsets(), small, best_.size, max_steps_);
    if (size == greedy_placement::stopped) return;
    best_ = {greedy_.offsets(), size, "backwards in time"};
    best_order_ = all_;
    sort_by_offset(best_order_);
  }
  void sort_by_offset(order& sorted) const {
    std::ranges::stable_sort(sorted,
                             [&](auto a, auto b) { return best_.offsets[a] < best_.offsets[b]; });
  }

  /// Places the allocations that reach above a threshold before all others: "squeaky wheel"
  /// optimisation (Joslin and Clements, 1999).
  void raise_obstacles() {
    auto const excess = double(best_.size - lower_bound_);
    bytes const threshold = lower_bound_ + static_cast<bytes>(excess * random_fraction());
    order sorted = best_order_;
    std::ranges::stable_partition(
        sorted, [&](auto i) { return best_.offsets[i] + at(i).size > threshold; });
    try_order("greedy, obstacles first", sorted, best_.size);
  }
  /// Moves allocations that reach above a threshold forward in the best order.
  void advance_obstacles() {
    auto const excess = double(best_.size - lower_bound_);
    bytes const threshold = lower_bound_ + static_cast<bytes>(excess * random_fraction());
    double const distance = double(best_order_.size()) * std::pow(10, -1 - 3 * random_fraction());
    std::vector<double> keys(problem_.allocations.size());
    for (std::size_t position = 0; position < best_order_.size(); ++position) {
      std::uint32_t const i = best_order_[position];
      bool const is_obstacle = best_.offsets[i] + at(i).size > threshold;
      keys[i] = double(position) - (is_obstacle ? distance * random_fraction() : 0);
    }
    order sorted = best_order_;
    std::ranges::stable_sort(sorted, [&](auto a, auto b) { return keys[a] < keys[b]; });
    try_order("greedy, obstacles earlier", sorted, best_.size);
  }

  /// The sweep leaves out allocations smaller than the lower bound divided by this number.
  static constexpr bytes smallest_of_sweep = 8192;

  placement_problem const& problem_;
  bytes lower_bound_, target_;
  std::uint64_t max_steps_;
  std::mt19937_64 random_;
  step_counter counter_;
  greedy_placement greedy_;
  order all_, best_order_;
  variant best_variant_;  // of the orders by the latest free
  placement_result best_;
};

}  // namespace

std::vector<bytes> live_bytes(placement_problem const& problem) {
  std::vector<bytes> change(problem.allocations.size() + 1);
  for (std::size_t i = 0; i < problem.allocations.size(); ++i) {
    lifetime const& each = problem.allocations[i];
    change[i] += each.size;
    change[each.end] -= each.size;
    if (each.wrapped_end == 0) continue;
    change[problem.wrap_begin] += each.size;
    change[each.wrapped_end] -= each.size;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

std::uint64_t overlaps(placement_problem const& problem) {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < problem.allocations.size(); ++i) {
    lifetime const& each = problem.allocations[i];
    if (each.size == 0) continue;
    result += each.end - i;
    if (each.wrapped_end != 0) result += each.wrapped_end - problem.wrap_begin;
  }
  return result;
}

placement_result place(placement_problem const& problem, bytes lower_bound, std::uint64_t max_steps,
                       std::uint64_t seed, placement_progress const& progress) {
  return search{problem, lower_bound, max_steps, seed, progress}.run();
}

}  // namespace quarry::inline QUARRY_ABI::trace
