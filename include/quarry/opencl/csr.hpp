// SPDX-License-Identifier: Apache-2.0
// A graph that kernels built, as compressed sparse rows.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/opencl/on_host.hpp"

#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

/// A directed graph. The edges of vertex v lead to `targets[offsets[v]]` up to, but not including,
/// `targets[offsets[v + 1]]`.
struct csr {
  std::vector<std::uint32_t> ids;      ///< ids of the vertices, ascending
  std::vector<std::uint64_t> offsets;  ///< an offset for each vertex, and the end
  std::vector<std::uint32_t> targets;  ///< indices into `ids`, ascending for each vertex

  bool operator==(csr const&) const = default;
};

/// Reads the graph of a heap that is mapped or lies in the host's memory. Throws `bad_argument` if
/// a link refers to no vertex. O(b + v log v + e log d) for b buckets, v vertices, e edges, and at
/// most d edges of a vertex.
[[nodiscard]] QUARRY_API csr csr_of(opencl_c::quarry_heap heap, opencl_c::quarry_graph* graph);

}  // namespace quarry::inline QUARRY_ABI::opencl
