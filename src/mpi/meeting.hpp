// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"
#include "reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether the members are all ranks of the world, so that they can meet without messages.
[[nodiscard]] QUARRY_HD inline bool meets(membership const& among) {
  return among.shared == &the_world().all;
}

/// Collective operations of all ranks of the world on small data, without messages.
///
/// The ranks are the leaves of a tree of degree 32. A rank puts its value in its place and adds 1
/// to its node's counter. The one that completes a node combines the values of the node in the
/// order of ranks and goes on to the parent, so that the result depends on nothing but the values.
/// The one that completes the root publishes the result and the meeting's number. The others wait
/// for that number with progress, so that a rank can still be in a send that this rank must serve.
///
/// Memory order. Each counter is an acq_rel RMW (A): the last to arrive sees the values of all. The
/// number is stored with release (P) and loaded with acquire (W): every rank sees the result. The
/// counter's return to 0 (Z) needs no order of its own: (P) follows it, and the next (A) follows
/// (W).
/// A result is read before its reader arrives at the next meeting, and is overwritten by the next
/// but one, so two places suffice. Numbers of meetings wrap after 2^32.
class meeting {
 public:
  static constexpr std::uint32_t degree = 32;
  static constexpr bytes part_bytes = 64;
  static constexpr bytes result_bytes = part_bytes + 16;  // and the size that a root sends

  /// The number of nodes of the tree for `ranks` ranks.
  [[nodiscard]] static constexpr std::uint64_t nodes_for(std::uint32_t ranks) {
    std::uint64_t nodes = 0;
    for (std::uint64_t level = ranks; level > 1; nodes += level)
      level = (level + degree - 1) / degree;
    return nodes + 1;
  }

  /// Waits until all ranks have arrived.
  QUARRY_SLOW static void barrier(rank_state& rank, call which);

  /// Copies `size` bytes, at most `part_bytes`, of the rank `root` to all ranks. Returns an MPI
  /// error code: if the root sends more, only `size` bytes are copied.
  QUARRY_SLOW static int broadcast(rank_state& rank, void* data, bytes size, std::uint32_t root,
                                   call which);

  /// Combines the ranks' values. `size` bytes, at most `part_bytes`; every rank gets the result.
  QUARRY_SLOW static void reduce(rank_state& rank, void* data, bytes size, bytes count,
                                 MPI_Datatype type, MPI_Op op, call which);
};

}  // namespace quarry::inline QUARRY_ABI::mpi
