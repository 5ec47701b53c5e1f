// SPDX-License-Identifier: Apache-2.0
// Which ranks of a communicator are neighbours.
#pragma once

#include "communicator_objects.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A grid or a graph. The members of a communicator share it.
struct topology {
  std::uint32_t is_grid;
  std::int32_t count;  // dimensions of a grid, nodes of a graph
  std::uint32_t words;
  std::uint32_t unused;
  // A grid: sizes, then whether they wrap. A graph: where each node's neighbours end, then these.

  [[nodiscard]] QUARRY_HD int* first() { return reinterpret_cast<int*>(this + 1); }
  [[nodiscard]] QUARRY_HD int* second() { return first() + count; }
};

/// The neighbours of a rank in the order of MPI's neighbourhood collectives.
struct neighbours {
  int sources;
  int targets;
  bool is_known;  // the communicator has a topology

  /// The rank to receive from and the rank to send to, or MPI_PROC_NULL.
  [[nodiscard]] QUARRY_SLOW int source(int index) const;
  [[nodiscard]] QUARRY_SLOW int target(int index) const;

  topology* shape;      // a grid or graph; else null
  neighbourhood* near;  // else null
  std::uint32_t own;
};

[[nodiscard]] QUARRY_SLOW neighbours neighbours_of(rank_state& rank, membership const& at);

/// A copy in the heap; null if that has no memory.
[[nodiscard]] QUARRY_SLOW topology* copy_of(topology const& old);

}  // namespace quarry::inline QUARRY_ABI::mpi
