// SPDX-License-Identifier: Apache-2.0
// The allocations of a simulation on a mesh: permanent fields, work arrays that grow slightly in
// each step, and many temporary arrays.
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

/// Makes the same steps on every machine. The figures of the published heuristics use 80 steps with
/// seed 1: 24,728 events.
class simulation_trace {
 public:
  explicit simulation_trace(int steps, std::uint64_t seed) : state_{seed * 2654435761u} {
    for (int time = 0; time < steps; ++time) run_step(time);
    for (auto const& [end, id] : allocated_) deallocate(id);
  }
  [[nodiscard]] std::vector<trace_step> const& steps() const { return steps_; }

 private:
  static constexpr int for_ever = 1'000'000'000;

  void run_step(int time) {
    if (time < 8 || time % 5 == 0) {
      for (int i = 0; i < 2; ++i) allocate(any_size(20, 24), for_ever);
    }
    for (int i = 1; i <= 4; ++i) {
      auto const grown =
          static_cast<bytes>(static_cast<double>((3 << 20) * i) * std::pow(1.008, time));
      allocate(grown + below(4096), time);
    }
    for (int i = 0; i < 150; ++i) {
      bytes const size = any_size(10, 22);
      int const end = below(100) < 92 ? time : time + 1 + static_cast<int>(below(6));
      allocate(size, end);
      if (below(3) != 0) continue;
      std::vector<std::size_t> positions;
      for (std::size_t at = 0; at < allocated_.size(); ++at) {
        if (allocated_[at].first == time) positions.push_back(at);
      }
      if (!positions.empty()) drop(positions[below(positions.size())]);
    }
    std::vector<std::size_t> ended;
    for (auto const& [end, id] : allocated_) {
      if (end <= time) ended.push_back(id);
    }
    while (!ended.empty()) {
      std::size_t const at = below(ended.size());
      for (std::size_t i = 0; i < allocated_.size(); ++i) {
        if (allocated_[i].second == ended[at]) {
          drop(i);
          break;
        }
      }
      ended.erase(ended.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  void allocate(bytes size, int end) {
    steps_.push_back({true, next_, size});
    allocated_.emplace_back(end, next_++);
  }
  void drop(std::size_t at) {
    deallocate(allocated_[at].second);
    allocated_.erase(allocated_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void deallocate(std::size_t id) { steps_.push_back({false, id, 0}); }

  /// Returns the upper 31 bits of xorshift64* (Vigna, 2016), modulo `bound`.
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 2685821657736338717u >> 33) % bound;
  }
  /// Returns a size from 2^low to 2^high. Each power of two is equally likely.
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
