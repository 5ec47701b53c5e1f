// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// A value that determines the capacity of a growable array when its size changes. Sizes are in
/// elements.
class growth_policy {
 public:
  /// The capacity is always the size.
  [[nodiscard]] static growth_policy exact() { return growth_policy{kind::exact, 1, 1}; }
  /// If the size exceeds the capacity, the capacity becomes `factor` times the size. It never
  /// shrinks. Throws `bad_argument` unless 1 < factor <= 16.
  [[nodiscard]] static growth_policy geometric(double factor = 1.5) {
    return growth_policy{kind::geometric, checked(factor, 1, 16, "factor"), 0};
  }
  /// Like geometric. If the size falls below `keep` times the capacity, the capacity shrinks to
  /// `factor` times the size. Throws `bad_argument` unless 0 < keep <= 1 / factor.
  [[nodiscard]] static growth_policy hysteresis(double factor = 1.25, double keep = 0.5) {
    checked(factor, 1, 16, "factor");
    return growth_policy{kind::hysteresis, factor, checked(keep, 0, 1 / factor, "keep")};
  }
  /// Uses the sizes of an earlier run. At change i the capacity covers the maximum of the recorded
  /// sizes i to i + window - 1. Behaves like hysteresis after the end of the history, or if that
  /// maximum is too small. Throws `bad_argument` for an empty history.
  [[nodiscard]] static growth_policy from_history(std::vector<std::size_t> sizes,
                                                  std::size_t window = 16) {
    if (sizes.empty() || window == 0)
      throw bad_argument{"growth_policy: the history is empty, or the window is 0"};
    growth_policy result = hysteresis();
    result.kind_ = kind::history;
    result.max_ahead_ = max_of_windows(sizes, window);
    return result;
  }

  /// The new capacity, at least `size`. `capacity`: the present capacity. `change`: the number of
  /// earlier changes of size.
  [[nodiscard]] std::size_t capacity_for(std::size_t size, std::size_t capacity,
                                         std::size_t change) const {
    if (kind_ == kind::exact) return size;
    if (kind_ == kind::history && change < max_ahead_.size() && max_ahead_[change] >= size) {
      std::size_t const wanted = max_ahead_[change];
      return capacity >= wanted &&
                     static_cast<double>(wanted) >= keep_ * static_cast<double>(capacity)
                 ? capacity
                 : wanted;
    }
    bool const is_too_large = static_cast<double>(size) < keep_ * static_cast<double>(capacity);
    if (size <= capacity && !is_too_large) return capacity;
    return std::max(size, static_cast<std::size_t>(static_cast<double>(size) * factor_));
  }

 private:
  enum class kind : std::uint8_t { exact, geometric, hysteresis, history };
  growth_policy(kind policy_kind, double factor, double keep)
      : kind_{policy_kind}, factor_{factor}, keep_{keep} {}

  static double checked(double value, double minimum, double maximum, char const* name) {
    if (value > minimum && value <= maximum) return value;
    throw bad_argument{"growth_policy: " + std::string{name} + " is " + std::to_string(value) +
                       "; it must be above " + std::to_string(minimum) + " and at most " +
                       std::to_string(maximum)};
  }
  /// For each size, the maximum of the `window` sizes that start with it. O(sizes x window).
  [[nodiscard]] static std::vector<std::size_t> max_of_windows(
      std::vector<std::size_t> const& sizes, std::size_t window) {
    std::vector<std::size_t> result(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto const base = sizes.begin() + static_cast<std::ptrdiff_t>(i);
      result[i] = *std::max_element(
          base, base + static_cast<std::ptrdiff_t>(std::min(window, sizes.size() - i)));
    }
    return result;
  }

  kind kind_;
  double factor_, keep_;
  std::vector<std::size_t> max_ahead_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
