// SPDX-License-Identifier: Apache-2.0
// The arguments of collective operations that run as schedules.
#pragma once

#include "schedule_builder.hpp"
#include "topologies.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A peer's part of a buffer.
struct buffer_part {
  char* data;
  bytes count;
  MPI_Datatype type;
};

/// A buffer of a collective operation, with a part for each peer.
struct part_buffer {
  void* data = nullptr;
  int count = 0;  // of each part, if `counts` is null
  MPI_Datatype type = MPI_BYTE;
  int const* counts = nullptr;
  int const* displacements = nullptr;  // in elements; in bytes if there are `types`
  MPI_Datatype const* types = nullptr;
  MPI_Aint const* offsets = nullptr;  // in bytes, instead of `displacements`

  [[nodiscard]] QUARRY_HD int count_of(std::uint32_t peer) const {
    return counts == nullptr ? count : counts[peer];
  }
  [[nodiscard]] QUARRY_HD MPI_Datatype type_of(std::uint32_t peer) const {
    return types == nullptr ? type : types[peer];
  }
  [[nodiscard]] QUARRY_HD buffer_part part_of(rank_state& rank, std::uint32_t peer) const {
    std::int64_t offset;
    if (offsets != nullptr) {
      offset = offsets[peer];
    } else if (types != nullptr) {
      offset = displacements[peer];
    } else {
      std::int64_t const first =
          displacements == nullptr ? static_cast<std::int64_t>(peer) * count : displacements[peer];
      offset = first * element_extent(rank, type);
    }
    return {static_cast<char*>(data) + offset, static_cast<bytes>(count_of(peer)), type_of(peer)};
  }
  /// The parts as one.
  [[nodiscard]] QUARRY_HD buffer_part whole() const {
    return {static_cast<char*>(data), static_cast<bytes>(count), type};
  }
  [[nodiscard]] QUARRY_HD bool is_in_place() const { return data == MPI_IN_PLACE; }
};

/// A call of such an operation. A broadcast has its buffer in `received`. Operations that reduce
/// have count and type in both buffers.
struct collective_call {
  operation what;
  part_buffer sent;
  part_buffer received;
  std::int32_t root = 0;
  MPI_Op op = MPI_OP_NULL;
};

/// The peers of an operation. In a communicator of one group both groups are the same.
struct collective_peers {
  peer_group local;
  peer_group remote;
  bool has_two_groups;
  neighbours near;  // of an operation of neighbours

  /// Whether the caller is the root. In a communicator of two groups the root's group has other
  /// arguments.
  [[nodiscard]] QUARRY_HD bool is_root(std::int32_t root) const {
    return has_two_groups ? root == MPI_ROOT : local.own == static_cast<std::uint32_t>(root);
  }
};

/// The peers of an operation of a communicator.
[[nodiscard]] QUARRY_SLOW collective_peers peers_of(rank_state& rank, membership& at,
                                                    operation what);

[[nodiscard]] QUARRY_HD constexpr bool reduces(operation what) {
  switch (what) {
    case operation::reduce:
    case operation::allreduce:
    case operation::reduce_scatter:
    case operation::reduce_scatter_block:
    case operation::scan:
    case operation::exscan:
      return true;
    default:
      return false;
  }
}

[[nodiscard]] QUARRY_HD inline bool is_among_neighbours(operation what) {
  return what >= operation::neighbor_allgather;
}

/// How many parts a call reads or writes of each buffer; 0: none.
struct used_parts {
  std::uint32_t sent;
  std::uint32_t received;
};
[[nodiscard]] QUARRY_SLOW used_parts parts_of(collective_call const& wanted,
                                              collective_peers const& peers);

/// At most so many messages of one schedule are on their way at once, unless each rank may have
/// other peers.
inline constexpr std::uint32_t most_scheduled_messages = 32;

/// Adds the steps of the call.
QUARRY_SLOW void add_steps(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                           collective_peers const& peers);

/// Whether the communicator has two groups, whose collective operations are schedules.
[[nodiscard]] QUARRY_HD inline bool has_two_groups(MPI_Comm communicator) {
  membership const* const at = member(self(), communicator);
  return at != nullptr && is_intercommunicator(*at);
}

/// Checks the arguments, makes the schedule, and runs it, begins it, or keeps it for MPI_Start.
/// Returns what the MPI function returns.
QUARRY_SLOW int run_scheduled(collective_call const& wanted, form how, MPI_Comm communicator,
                              MPI_Request* handle, char const* function);

/// Runs an operation of a communicator of two groups.
[[nodiscard]] QUARRY_HD inline int run_across(collective_call const& wanted, MPI_Comm communicator,
                                              char const* function) {
  return run_scheduled(wanted, form::blocking, communicator, nullptr, function);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
