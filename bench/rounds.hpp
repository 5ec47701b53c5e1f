// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace bench {

/// The rounds of a measurement: `warm_ups` that do not count, then `rounds` that count. After
/// `max_ms` the measurement stops as soon as one round has counted. With `moments` the results of a
/// trial also have the mean and the standard deviation.
struct effort {
  double max_ms = 1500;
  int warm_ups = 2;
  int rounds = 20;
  bool moments = false;
};

/// Decides how often a measurement repeats. Use: `while (rounds.next()) { ...; if (rounds.count())
/// values.push_back(...); }`
class round_counter {
 public:
  explicit round_counter(effort maximum) : maximum_{maximum} {}

  /// Begins another round. Returns false, and begins none, at the end of the measurement.
  [[nodiscard]] bool next() {
    if (counted_ == maximum_.rounds || (counted_ > 0 && is_late())) return false;
    ++begun_;
    return true;
  }

  /// Ends the round. Returns whether it counts: a warm-up counts only if the time is up.
  [[nodiscard]] bool count() {
    bool const counts = begun_ > maximum_.warm_ups || is_late();
    if (counts) ++counted_;
    return counts;
  }

 private:
  [[nodiscard]] bool is_late() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
               .count() > maximum_.max_ms;
  }

  effort maximum_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int begun_ = 0, counted_ = 0;
};

}  // namespace bench
