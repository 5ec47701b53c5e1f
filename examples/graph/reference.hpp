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

/// An answer of the graph differs from the reference's. `what()` describes the answer.
class wrong_answer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[nodiscard]] inline std::string text_of(edge const& printed) {
  return std::to_string(printed.source) + " -> " + std::to_string(printed.target);
}

/// A model of the graph on the host: every edge that can occur, sorted, and whether the graph has
/// the edge at present. Each check throws `wrong_answer` at the first difference. O(log n) for an
/// edge.
class reference {
 public:
  /// `edges` are all edges that can occur. The graph is empty at first. O(n log n).
  explicit reference(std::vector<edge> const& edges) : known_{edges} {
    std::sort(known_.begin(), known_.end(), is_less);
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

  /// The index of each edge in `known`. Requires that `known` has all of them.
  [[nodiscard]] std::vector<std::size_t> places_of(std::span<edge const> edges) const {
    std::vector<std::size_t> result;
    for (auto const& item : edges) result.push_back(index_of(item).value());
    return result;
  }

  /// Checks a batch of insertions or deletions, and updates the model. `done[i]`: the graph reports
  /// that it changed edge `known()[batch[i]]`; false: that it refused. Among equal edges the graph
  /// must change exactly one if the batch changes the edge's state, else no edge. O(batch).
  void check_batch(std::span<std::size_t const> batch, std::vector<bool> const& done,
                   bool is_insertion) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!done[i]) continue;
      if ((present_[batch[i]] != 0) == is_insertion) {
        throw wrong_answer{text_of(known_[batch[i]]) +
                           (is_insertion ? " was inserted twice, or although it existed"
                                         : " was deleted twice, or although it did not exist")};
      }
      present_[batch[i]] = is_insertion ? 1 : 0;
    }
    for (auto const location : batch) {
      if ((present_[location] != 0) == is_insertion) continue;
      throw wrong_answer{text_of(known_[location]) +
                         (is_insertion ? " was not inserted" : " was not deleted")};
    }
  }

  /// Checks the answers `found[i]`, whether the graph has edge i of `known`. O(n).
  void check_known(std::span<std::uint8_t const> found) const {
    for (std::size_t i = 0; i < known_.size(); ++i)
      check_answer(known_[i], found[i] != 0, present_[i] != 0);
  }

  /// Checks the answers `found[i]`, whether the graph has edge i of `requested`. The edges need not
  /// be in `known`.
  void check_any(std::span<edge const> requested, std::span<std::uint8_t const> found) const {
    for (std::size_t i = 0; i < requested.size(); ++i) {
      auto const index = index_of(requested[i]);
      check_answer(requested[i], found[i] != 0, index && present_[*index] != 0);
    }
  }

  /// Checks the rows of an export. Row i has `degrees[i]` columns from `begins[i]` on. Rows and
  /// columns may have any order, and rows of `no_vertex` must be empty. O(n log n).
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
        if (next == known_.size() || is_less(found, known_[next]))
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
  static bool is_less(edge const& a, edge const& b) {
    return a.source != b.source ? a.source < b.source : a.target < b.target;
  }
  static void check_answer(edge const& requested, bool found, bool expected) {
    if (found != expected)
      throw wrong_answer{text_of(requested) +
                         (expected ? " was not found" : " was found, but is not there")};
  }
  [[nodiscard]] std::optional<std::size_t> index_of(edge const& item) const {
    auto const found = std::lower_bound(known_.begin(), known_.end(), item, is_less);
    if (found == known_.end() || !(*found == item)) return std::nullopt;
    return static_cast<std::size_t>(found - known_.begin());
  }
  [[nodiscard]] std::size_t next_present(std::size_t index) const {
    while (index < known_.size() && present_[index] == 0) ++index;
    return index;
  }

  std::vector<edge> known_;            // sorted, without duplicates
  std::vector<std::uint8_t> present_;  // whether the graph has known_[i]
};

}  // namespace quarry::graph_demo
