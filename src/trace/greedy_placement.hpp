// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/placement.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// Places allocations one after the other, each at the lowest offset where it overlaps none of
/// those that are placed and live at the same time (Pisarchyk and Lee, "Efficient Memory Management
/// for Deep Neural Net Inference", 2020: greedy by size).
///
/// An allocation that lives in [b, e) meets the placed ones that live at b, and those that begin
/// in (b, e). A segment tree over the time has the former. A bit set over the beginnings has the
/// latter.
class greedy_placement {
 public:
  static constexpr bytes stopped = std::numeric_limits<bytes>::max();

  /// The counter must outlive this.
  greedy_placement(placement_problem const& problem, step_counter& counter)
      : problem_{problem},
        counter_{counter},
        leaves_{static_cast<std::uint32_t>(problem.allocations.size())},
        nodes_(2 * std::size_t{leaves_}),
        begins_(leaves_ / 64 + 1),
        offsets_(leaves_) {}

  /// Places the allocations in this order. Returns the size of the range. Returns `stopped` as soon
  /// as the range reaches `limit`, or the counter `max_steps`; then the offsets are partial.
  [[nodiscard]] bytes place(std::span<std::uint32_t const> order, bytes limit,
                            std::uint64_t max_steps) {
    clear();
    return place_more(order, 0, limit, max_steps);
  }
  /// The same around allocations that lie at `offsets`, each indexed by its number.
  [[nodiscard]] bytes place_around(std::span<std::uint32_t const> fixed,
                                   std::span<bytes const> offsets,
                                   std::span<std::uint32_t const> order, bytes limit,
                                   std::uint64_t max_steps) {
    clear();
    bytes size = 0;
    for (std::uint32_t const i : fixed) {
      offsets_[i] = offsets[i];
      size = std::max(size, offsets[i] + problem_.allocations[i].size);
      add(i);
    }
    return place_more(order, size, limit, max_steps);
  }
  [[nodiscard]] std::vector<bytes> const& offsets() const { return offsets_; }

 private:
  void clear() {
    for (auto& node : nodes_) node.clear();
    std::ranges::fill(begins_, 0);
    wrapped_.clear();
  }
  [[nodiscard]] bytes place_more(std::span<std::uint32_t const> order, bytes size, bytes limit,
                                 std::uint64_t max_steps) {
    for (std::uint32_t const i : order) {
      offsets_[i] = lowest_offset(i);
      size = std::max(size, offsets_[i] + problem_.allocations[i].size);
      if (size >= limit || counter_.steps() >= max_steps) return stopped;
      add(i);
    }
    return size;
  }
  [[nodiscard]] bytes lowest_offset(std::uint32_t i) {
    lifetime const& each = problem_.allocations[i];
    used_.clear();
    find_overlaps(i, each.end);
    if (each.wrapped_end != 0) find_overlaps(problem_.wrap_begin, each.wrapped_end);
    counter_.add(used_.size() + 1);
    std::ranges::sort(used_);
    bytes result = 0;
    for (auto const& [begin, end] : used_) {
      if (begin >= result + each.size) break;
      result = std::max(result, end);
    }
    return result;
  }
  void find_overlaps(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t node = begin + leaves_; node != 0; node /= 2) {
      for (std::uint32_t const other : nodes_[node]) add_used(other);
    }
    if (begin < problem_.wrap_begin && problem_.wrap_begin < end) {
      for (std::uint32_t const other : wrapped_) add_used(other);
    }
    for (std::uint32_t at = begin + 1; at < end; at = (at / 64 + 1) * 64) {
      std::uint64_t word = begins_[at / 64] & (~std::uint64_t{0} << (at % 64));
      for (; word != 0; word &= word - 1) {
        auto const other = at / 64 * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
        if (other >= end) break;
        add_used(other);
      }
    }
  }
  void add_used(std::uint32_t i) {
    used_.emplace_back(offsets_[i], offsets_[i] + problem_.allocations[i].size);
  }

  void add(std::uint32_t i) {
    lifetime const& each = problem_.allocations[i];
    add_to_nodes(i, i, each.end);
    begins_[i / 64] |= std::uint64_t{1} << (i % 64);
    if (each.wrapped_end == 0) return;
    add_to_nodes(i, problem_.wrap_begin, each.wrapped_end);
    wrapped_.push_back(i);
  }
  void add_to_nodes(std::uint32_t i, std::uint32_t begin, std::uint32_t end) {
    std::uint32_t left = begin + leaves_, right = end + leaves_;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) nodes_[left++].push_back(i);
      if (right % 2 == 1) nodes_[--right].push_back(i);
    }
  }

  placement_problem const& problem_;
  step_counter& counter_;  // of the pairs of allocations that are compared
  std::uint32_t leaves_;
  std::vector<std::vector<std::uint32_t>> nodes_;  // of the segment tree; leaves from `leaves_` on
  std::vector<std::uint64_t> begins_;              // placed allocations
  std::vector<std::uint32_t> wrapped_;             // placed allocations that wrap
  std::vector<bytes> offsets_;
  std::vector<std::pair<bytes, bytes>> used_;
};

}  // namespace quarry::inline QUARRY_ABI::trace
