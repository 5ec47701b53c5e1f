// SPDX-License-Identifier: Apache-2.0
// Reads a graph from a file in either of the two formats that most public graphs come in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/edge.hpp"

namespace quarry::graph_demo {

/// The file does not hold what its format promises. `what()` is `file:line: reason` and quotes the
/// offending text.
class malformed_input : public std::runtime_error {
 public:
  malformed_input(std::filesystem::path const& file, std::size_t line, std::string const& reason);
};

/// Edges in the order of the file; duplicates and self-loops are kept.
struct edge_list {
  std::vector<edge> edges;
  std::size_t declared_vertices = 0;  ///< 0 if the format does not say.
};

/// Reads a file, plain or gzip, as whichever of these its first line says it is:
///   - Matrix Market `matrix coordinate`, general or symmetric, if it opens with `%%MatrixMarket`.
///   Entry (i, j) is the edge
///     i - 1 -> j - 1, and in a symmetric matrix also its mirror image unless i = j. Values must be
///     there but are not looked at. `declared_vertices` is the larger of rows and columns;
///   - otherwise an edge list: `source target` in decimal, separated by spaces or tabs. Further
///   columns, blank lines, and
///     lines that open with `#` or `%` are ignored.
///
/// Throws `malformed_input` at the first malformed line, at a count that does not hold, and at
/// damaged or truncated gzip data; `std::filesystem::filesystem_error` if the file cannot be opened
/// or read. O(size of the text), in one pass.
[[nodiscard]] edge_list read_edge_list(std::filesystem::path const& file);

}  // namespace quarry::graph_demo
