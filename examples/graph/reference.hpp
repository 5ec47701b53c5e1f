// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/edge.hpp"

namespace quarry::graph_demo {

/// The graph gave an answer that the reference does not. `what()` says which.
class wrong_answer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[nodiscard]] inline std::string text_of(edge const& each) {
  return std::to_string(each.source) + " -> " + std::to_string(each.target);
}

/// What a graph must hold: every edge that was ever in it, in order, and whether it is there now.
/// Host only; each check throws `wrong_answer` at the first difference. O(log n) for an edge.
class reference {
 public:
  /// All edges that will occur, none of them there yet. O(n log n).
  explicit reference(std::vector<edge> const& edges) : known_{edges} {
    std::sort(known_.begin(), known_.end(), before);
    known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
    present_.resize(known_.size(), 0);
  }

  [[nodiscard]] std::vector<edge> const& known() const { return known_; }
  [[nodiscard]] std::uint64_t present() const {
    return static_cast<std::uint64_t>(std::count(present_.begin(), present_.end(), 1));
  }
  [[nodiscard]] std::uint64_t sources() const {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < known_.size(); ++i)
      count += i == 0 || known_[i].source != known_[i - 1].source ? 1 : 0;
    return count;
  }

  /// Where each edge stands in `known`. Requires that it does.
  [[nodiscard]] std::vector<std::size_t> places_of(std::span<edge const> edges) const {
    std::vector<std::size_t> result;
    for (auto const& each : edges) result.push_back(index_of(each).value());
    return result;
  }

  /// `done[i]` is whether the edge at place `batch[i]` was reported inserted or deleted (`wanted`
  /// says which), not refused: exactly one of equal edges must be if it was not yet as wanted, and
  /// none otherwise. Notes the change. O(batch).
  void check_batch(std::span<std::size_t const> batch, std::vector<bool> const& done, bool wanted) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!done[i]) continue;
      if ((present_[batch[i]] != 0) == wanted) {
        throw wrong_answer{text_of(known_[batch[i]]) +
                           (wanted ? " was inserted though it was there, or twice"
                                   : " was deleted though it was not there, or twice")};
      }
      present_[batch[i]] = wanted ? 1 : 0;
    }
    for (auto const location : batch) {
      if ((present_[location] != 0) == wanted) continue;
      throw wrong_answer{text_of(known_[location]) +
                         (wanted ? " was not inserted" : " was not deleted")};
    }
  }

  /// `found[i]` answers whether edge i of `known` is there. O(n).
  void check_known(std::span<std::uint8_t const> found) const {
    for (std::size_t i = 0; i < known_.size(); ++i)
      check_answer(known_[i], found[i] != 0, present_[i] != 0);
  }

  /// `found[i]` answers whether edge i of `asked` is there, whether it is known or not.
  void check_any(std::span<edge const> asked, std::span<std::uint8_t const> found) const {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      auto const at = index_of(asked[i]);
      check_answer(asked[i], found[i] != 0, at && present_[*at] != 0);
    }
  }

  /// Rows in any order, each unsorted; row i goes from `begins[i]` on, for `degrees[i]` columns,
  /// and rows of `no_vertex` are empty. O(n log n).
  void check_rows(std::span<std::uint32_t const> ids, std::span<std::uint64_t const> degrees,
                  std::span<std::uint64_t const> begins,
                  std::span<std::uint32_t const> columns) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != no_vertex) order.push_back(i);
      if (ids[i] == no_vertex && degrees[i] != 0)
        throw wrong_answer{"a row without a vertex has edges"};
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
    std::size_t next = next_present(0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::size_t const row = order[i];
      if (i > 0 && ids[order[i - 1]] == ids[row])
        throw wrong_answer{"vertex " + std::to_string(ids[row]) + " has two rows"};
      auto const begin = columns.begin() + static_cast<std::ptrdiff_t>(begins[row]);
      std::vector<std::uint32_t> targets(begin, begin + static_cast<std::ptrdiff_t>(degrees[row]));
      std::sort(targets.begin(), targets.end());
      for (auto const target : targets) {
        edge const found{ids[row], target};
        if (next == known_.size() || before(found, known_[next]))
          throw wrong_answer{text_of(found) + " is in a row, but not in the graph"};
        if (!(found == known_[next]))
          throw wrong_answer{text_of(known_[next]) + " is missing from its row"};
        next = next_present(next + 1);
      }
    }
    if (next != known_.size())
      throw wrong_answer{text_of(known_[next]) + " is missing from its row"};
  }

 private:
  static bool before(edge const& a, edge const& b) {
    return a.source != b.source ? a.source < b.source : a.target < b.target;
  }
  static void check_answer(edge const& asked, bool found, bool expected) {
    if (found != expected)
      throw wrong_answer{text_of(asked) +
                         (expected ? " was not found" : " was found, but is not there")};
  }
  [[nodiscard]] std::optional<std::size_t> index_of(edge const& each) const {
    auto const found = std::lower_bound(known_.begin(), known_.end(), each, before);
    if (found == known_.end() || !(*found == each)) return std::nullopt;
    return static_cast<std::size_t>(found - known_.begin());
  }
  [[nodiscard]] std::size_t next_present(std::size_t from) const {
    while (from < known_.size() && present_[from] == 0) ++from;
    return from;
  }

  std::vector<edge> known_;            // sorted, each once
  std::vector<std::uint8_t> present_;  // of each
};

}  // namespace quarry::graph_demo
