// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quarry::graph_demo {

/// A directed edge. Vertex ids are any 32-bit values but `no_vertex`. A program does not know them
/// in advance.
struct edge {
  std::uint32_t source;
  std::uint32_t target;

  friend constexpr bool operator==(edge const&, edge const&) = default;
};

/// No vertex has this id. Tables with vertex ids as keys can mark an empty slot with it.
inline constexpr std::uint32_t no_vertex = 0xFFFF'FFFFu;

}  // namespace quarry::graph_demo
