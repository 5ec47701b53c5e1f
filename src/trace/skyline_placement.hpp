// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// Which of the allocations that fit into a step of the skyline is placed first.
enum class skyline_rule : std::uint8_t { area, duration };

/// Fills the range from below (Sekiyama, Imamichi, Imai and Raymond, "Profile-guided memory
/// optimization for deep neural networks", 2018). The skyline has the end of the used bytes at each
/// time. Its lowest step takes an allocation that lives in its time only. If no allocation does,
/// the step rises to its lower neighbour.
///
/// Allocations that wrap lie below all others, since a skyline has no two parts of one allocation.
class skyline_placement {
 public:
  /// The counter must outlive this.
  skyline_placement(placement_problem const& problem, skyline_rule rule, step_counter& counter)
      : problem_{problem},
        counter_{counter},
        rule_{rule},
        count_{static_cast<std::uint32_t>(problem.allocations.size())},
        left_(count_ / 64 + 1),
        offsets_(count_) {
    bytes base = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (problem.allocations[i].size == 0) continue;
      if (problem.allocations[i].wrapped_end != 0) {
        offsets_[i] = base;
        base += problem.allocations[i].size;
      } else {
        left_[i / 64] |= std::uint64_t{1} << (i % 64);
        ++left_count_;
      }
    }
    size_ = base;
    insert(0, count_, base);
  }

  /// Returns false, and stops, as soon as the range reaches `limit`, or the counter `max_steps`.
  [[nodiscard]] bool place(bytes limit, std::uint64_t max_steps) {
    while (left_count_ != 0) {
      if (size_ >= limit || counter_.steps() >= max_steps) return false;
      auto const [height, begin] = *lowest_.begin();
      std::uint32_t const end = steps_of_line_.at(begin).end;
      std::uint32_t const chosen = best_in(begin, end);
      if (chosen == count_) {
        rise(begin);
      } else {
        put(chosen, begin, end, height);
      }
    }
    return size_ < limit;
  }
  [[nodiscard]] std::vector<bytes> const& offsets() const { return offsets_; }
  [[nodiscard]] bytes size() const { return size_; }

 private:
  struct line_step {
    std::uint32_t end;
    bytes height;
  };
  using line = std::map<std::uint32_t, line_step>;

  /// The allocation in [begin, end) to place, or `count_`.
  [[nodiscard]] std::uint32_t best_in(std::uint32_t begin, std::uint32_t end) {
    std::uint32_t result = count_;
    std::uint64_t steps = 0;
    std::pair<double, bytes> best_key;
    for (std::uint32_t at = begin; at < end; at = (at / 64 + 1) * 64) {
      ++steps;
      std::uint64_t word = left_[at / 64] & (~std::uint64_t{0} << (at % 64));
      for (; word != 0; word &= word - 1) {
        auto const i = at / 64 * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
        if (i >= end) break;
        ++steps;
        lifetime const& each = problem_.allocations[i];
        if (each.end > end) continue;
        double const duration = each.end - i;
        std::pair const key{
            rule_ == skyline_rule::area ? duration * static_cast<double>(each.size) : duration,
            each.size};
        if (result != count_ && key <= best_key) continue;
        best_key = key;
        result = i;
      }
    }
    counter_.add(steps);
    return result;
  }
  /// Places an allocation on the step [begin, end), which becomes up to three steps.
  void put(std::uint32_t i, std::uint32_t begin, std::uint32_t end, bytes height) {
    lifetime const& each = problem_.allocations[i];
    left_[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    --left_count_;
    offsets_[i] = height;
    size_ = std::max(size_, height + each.size);
    erase(steps_of_line_.find(begin));
    if (begin < i) insert(begin, i, height);
    if (each.end < end) insert(each.end, end, height);
    insert(i, each.end, height + each.size);
  }
  /// Raises a step that is lower than its neighbours to the lower one, and joins them.
  void rise(std::uint32_t begin) {
    auto const step = steps_of_line_.find(begin);
    bytes height = ~bytes{0};
    if (step != steps_of_line_.begin()) height = std::prev(step)->second.height;
    if (std::next(step) != steps_of_line_.end())
      height = std::min(height, std::next(step)->second.height);
    std::uint32_t const end = step->second.end;
    erase(step);
    insert(begin, end, height);
  }
  /// Adds a step, joined with neighbours of the same height.
  void insert(std::uint32_t begin, std::uint32_t end, bytes height) {
    auto next = steps_of_line_.lower_bound(begin);
    if (next != steps_of_line_.end() && next->first == end && next->second.height == height) {
      end = next->second.end;
      next = erase(next);
    }
    if (next != steps_of_line_.begin()) {
      auto const previous = std::prev(next);
      if (previous->second.end == begin && previous->second.height == height) {
        previous->second.end = end;
        return;
      }
    }
    steps_of_line_.emplace(begin, line_step{end, height});
    lowest_.emplace(height, begin);
  }
  line::iterator erase(line::iterator step) {
    lowest_.erase({step->second.height, step->first});
    return steps_of_line_.erase(step);
  }

  placement_problem const& problem_;
  step_counter& counter_;  // of the allocations that are examined
  skyline_rule rule_;
  std::uint32_t count_;
  std::vector<std::uint64_t> left_;  // allocations that are not placed yet
  std::size_t left_count_ = 0;
  std::vector<bytes> offsets_;
  line steps_of_line_;                                // by their begin
  std::set<std::pair<bytes, std::uint32_t>> lowest_;  // the same steps by height, then begin
  bytes size_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
