// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quarry::graph_demo {

/// One directed edge. Ids are any 32-bit values but `no_vertex`; nothing says beforehand which
/// occur.
struct edge {
  std::uint32_t source;
  std::uint32_t target;

  friend constexpr bool operator==(edge const&, edge const&) = default;
};

/// Never a vertex: tables keyed by vertex id may mark an empty place with it.
inline constexpr std::uint32_t no_vertex = 0xFFFF'FFFFu;

}  // namespace quarry::graph_demo
