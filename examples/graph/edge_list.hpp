// SPDX-License-Identifier: Apache-2.0
// Reads a graph from a file in one of the two formats that most public graphs have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/edge.hpp"

namespace quarry::graph_demo {

/// The file violates its format. `what()` is `file:line: reason` and quotes the wrong text.
class malformed_input : public std::runtime_error {
 public:
  malformed_input(std::filesystem::path const& file, std::size_t line, std::string const& reason);
};

/// The edges in the order of the file, with duplicates and self-loops.
struct edge_list {
  std::vector<edge> edges;
  std::size_t declared_vertices = 0;  ///< 0 if the format does not declare it
};

/// Reads a plain or gzip file. Its first line decides the format:
///   - Matrix Market `matrix coordinate`, general or symmetric, if the file begins with
///     `%%MatrixMarket`. Entry (i, j) is the edge i - 1 -> j - 1; in a symmetric matrix also the
///     edge j - 1 -> i - 1, unless i = j. Values must exist, but the function ignores them.
///     `declared_vertices` is the larger of rows and columns;
///   - else an edge list: `source target` in decimal, separated by spaces or tabs. The function
///     ignores further columns, blank lines, and lines that begin with `#` or `%`.
///
/// Throws `malformed_input` for the first malformed line, for a wrong count, and for damaged or
/// truncated gzip data. Throws `std::filesystem::filesystem_error` if it cannot open or read the
/// file. O(size of the text), in one pass.
[[nodiscard]] edge_list read_edge_list(std::filesystem::path const& file);

}  // namespace quarry::graph_demo
