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
  comm_split,
  comm_dup,
  finalize,
  output,
  memory,  // of a call that is not named
  isend
};

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
                                             "MPI_Comm_split",
                                             "MPI_Comm_dup",
                                             "MPI_Finalize",
                                             "printf",
                                             "a call of MPI",
                                             "MPI_Isend"};

}  // namespace quarry::inline QUARRY_ABI::mpi
