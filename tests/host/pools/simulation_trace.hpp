// SPDX-License-Identifier: Apache-2.0
// The allocations of a simulation on a mesh: permanent fields, work arrays that grow a little each
// step, many temporaries.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace quarry::test {

struct trace_step {
  bool is_allocation;
  std::size_t id;
  bytes size;
};

/// The same steps on every machine. The published heuristics' figures are of 80 steps with seed 1:
/// 24,728 events.
class simulation_trace {
 public:
  explicit simulation_trace(int steps, std::uint64_t seed) : state_{seed * 2654435761u} {
    for (int now = 0; now < steps; ++now) run_step(now);
    for (auto const& [until, id] : allocated_) give_back(id);
  }
  [[nodiscard]] std::vector<trace_step> const& steps() const { return steps_; }

 private:
  static constexpr int for_ever = 1'000'000'000;

  void run_step(int now) {
    if (now < 8 || now % 5 == 0) {
      for (int i = 0; i < 2; ++i) take(any_size(20, 24), for_ever);
    }
    for (int i = 1; i <= 4; ++i) {
      auto const grown =
          static_cast<bytes>(static_cast<double>((3 << 20) * i) * std::pow(1.008, now));
      take(grown + below(4096), now);
    }
    for (int i = 0; i < 150; ++i) {
      bytes const size = any_size(10, 22);
      int const until = below(100) < 92 ? now : now + 1 + static_cast<int>(below(6));
      take(size, until);
      if (below(3) != 0) continue;
      std::vector<std::size_t> of_this_step;
      for (std::size_t at = 0; at < allocated_.size(); ++at) {
        if (allocated_[at].first == now) of_this_step.push_back(at);
      }
      if (!of_this_step.empty()) drop(of_this_step[below(of_this_step.size())]);
    }
    std::vector<std::size_t> over;
    for (auto const& [until, id] : allocated_) {
      if (until <= now) over.push_back(id);
    }
    while (!over.empty()) {
      std::size_t const at = below(over.size());
      for (std::size_t i = 0; i < allocated_.size(); ++i) {
        if (allocated_[i].second == over[at]) {
          drop(i);
          break;
        }
      }
      over.erase(over.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  void take(bytes size, int until) {
    steps_.push_back({true, next_, size});
    allocated_.emplace_back(until, next_++);
  }
  void drop(std::size_t at) {
    give_back(allocated_[at].second);
    allocated_.erase(allocated_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void give_back(std::size_t id) { steps_.push_back({false, id, 0}); }

  /// xorshift64* (Vigna, 2016), its upper 31 bits.
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 2685821657736338717u >> 33) % bound;
  }
  /// From 2^low to 2^high, each power of two as likely.
  bytes any_size(std::uint32_t low, std::uint32_t high) {
    bytes const power = bytes{1} << (low + below(high - low));
    return power + below(power);
  }

  std::uint64_t state_;
  std::size_t next_ = 0;
  std::vector<std::pair<int, std::size_t>> allocated_;
  std::vector<trace_step> steps_;
};

}  // namespace quarry::test
