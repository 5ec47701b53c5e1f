// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// The calls in which a rank can wait.
enum class call : std::uint32_t {
  none,
  send,
  ssend,
  recv,
  sendrecv,
  probe,
  wait,
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  scatter,
  allgather,
  alltoall,
  scan,
  finalize,
  output,
  memory,  // of a call that is not named
  isend,
  comm_split,
  comm_dup,
  comm_create,
  comm_create_group,
  intercomm_create,
  intercomm_merge,
  cart_create,
  graph_create,
  dist_graph_create,
  shared_gather,  // with a root_window, as the next two
  shared_allgather,
  shared_scatter,
  start,
  isendrecv,
  mprobe,
  buffer_detach,
  cancel,
  shared_bcast,  // of the world, in which ranks read each other's memory; `bcast` is of few bytes
  shared_reduce,
  shared_allreduce
};

/// Whether ranks that take part in the call read what others have written, apart from messages: an
/// object that they share, or a buffer. Then its messages must be ordered.
[[nodiscard]] constexpr bool shares_memory(call which) {
  return which >= call::comm_split && which <= call::shared_scatter;
}

/// Whether the call is an operation of all ranks of a communicator.
[[nodiscard]] constexpr bool is_collective(call which) {
  return (which >= call::barrier && which <= call::finalize) ||
         (which >= call::comm_split && which <= call::shared_scatter) ||
         which >= call::shared_bcast;
}

inline constexpr char const* call_names[] = {"",
                                             "MPI_Send",
                                             "MPI_Ssend",
                                             "MPI_Recv",
                                             "MPI_Sendrecv",
                                             "MPI_Probe",
                                             "MPI_Wait",
                                             "MPI_Barrier",
                                             "MPI_Bcast",
                                             "MPI_Reduce",
                                             "MPI_Allreduce",
                                             "MPI_Gather",
                                             "MPI_Scatter",
                                             "MPI_Allgather",
                                             "MPI_Alltoall",
                                             "MPI_Scan",
                                             "MPI_Finalize",
                                             "printf",
                                             "a call of MPI",
                                             "MPI_Isend",
                                             "MPI_Comm_split",
                                             "MPI_Comm_dup",
                                             "MPI_Comm_create",
                                             "MPI_Comm_create_group",
                                             "MPI_Intercomm_create",
                                             "MPI_Intercomm_merge",
                                             "MPI_Cart_create",
                                             "MPI_Graph_create",
                                             "MPI_Dist_graph_create",
                                             "MPI_Gather",
                                             "MPI_Allgather",
                                             "MPI_Scatter",
                                             "MPI_Start",
                                             "MPI_Isendrecv",
                                             "MPI_Mprobe",
                                             "MPI_Buffer_detach",
                                             "MPI_Cancel",
                                             "MPI_Bcast",
                                             "MPI_Reduce",
                                             "MPI_Allreduce"};

/// Collective operations that can run as schedules (schedule.hpp).
enum class operation : std::uint32_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw
};

inline constexpr char const* operation_names[] = {"Barrier",
                                                  "Bcast",
                                                  "Reduce",
                                                  "Allreduce",
                                                  "Gather",
                                                  "Gatherv",
                                                  "Scatter",
                                                  "Scatterv",
                                                  "Allgather",
                                                  "Allgatherv",
                                                  "Alltoall",
                                                  "Alltoallv",
                                                  "Alltoallw",
                                                  "Reduce_scatter",
                                                  "Reduce_scatter_block",
                                                  "Scan",
                                                  "Exscan",
                                                  "Neighbor_allgather",
                                                  "Neighbor_allgatherv",
                                                  "Neighbor_alltoall",
                                                  "Neighbor_alltoallv",
                                                  "Neighbor_alltoallw"};

/// How a program calls such an operation: MPI_NAME, MPI_Iname, MPI_NAME_init.
enum class form : std::uint32_t { blocking, nonblocking, persistent };

/// What a rank that waits for such an operation says in its `wait_reason`. It is no `call`: ranks
/// do not meet for it.
inline constexpr std::uint32_t first_scheduled_call = 256;
[[nodiscard]] constexpr std::uint32_t scheduled_call(operation what, form how) {
  return first_scheduled_call + static_cast<std::uint32_t>(what) * 4 +
         static_cast<std::uint32_t>(how);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
