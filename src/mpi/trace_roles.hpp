// SPDX-License-Identifier: Apache-2.0
// What the compiler and the runtime both know of traces.
#pragma once

#include "quarry/core/abi.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a record is about. The file has these numbers (docs/format/mpi_trace.md).
enum class trace_role : unsigned {
  call,              // of MPI; the ranks exchange nothing that the trace shows
  send,              // the program waits until the message is sent
  receive,           // the program waits for the message; or MPI_Mprobe takes it
  wait,              // for requests
  collective,        // the program waits for the others
  allocate,          // malloc and its family
  free,              //
  send_part,         // of a call that also receives: the next record is the receive
  probe,             // the program waits for a message, and does not receive it
  begun_send,        // MPI_Isend, MPI_Start
  begun_receive,     // MPI_Irecv, MPI_Start
  begun_collective,  // MPI_Ibarrier, MPI_Start
};

}  // namespace quarry::inline QUARRY_ABI::mpi
