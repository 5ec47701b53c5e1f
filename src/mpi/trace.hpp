// SPDX-License-Identifier: Apache-2.0
// Traces of programs that quarry-mpicc --trace made: each call of MPI, malloc and free of each rank
// as a record (docs/format/mpi_trace.md).
//
// The compiler puts the functions below around the calls (compiler/trace_calls.cpp). Only the rank
// itself writes its records; the launcher reads them when the rank has ended or waits for ever.
#pragma once

#include "trace_roles.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A call. The file has these bytes.
struct trace_record {
  std::uint64_t begin = 0;  // nanoseconds of the machine's clock
  std::uint64_t end = 0;    // 0: the call has not returned
  std::uint64_t bytes = 0;  // of the message, of the operation's buffer, or of the allocation
  std::uint16_t function = 0;
  std::uint8_t role = 0;
  std::uint8_t flags = 0;   // bits of trace_flag
  std::uint32_t place = 0;  // in the source
  /// A rank of the world; MPI_ANY_SOURCE; or MPI_PROC_NULL for none. Of an allocation: the low half
  /// of its address, whose other half is `tag`.
  std::int32_t peer = MPI_PROC_NULL;
  std::int32_t tag = 0;
  std::uint32_t communicator = 0;
  std::uint32_t link = 0;  // 1 + the record of the call that has completed what this one began
  /// CPU: how long the rank itself had run, and slept, at the begin and at the end. While it waits,
  /// others run on its thread.
  std::uint64_t own_begin = 0;
  std::uint64_t own_end = 0;
};
static_assert(sizeof(trace_record) == 64);

namespace trace_flag {
inline constexpr std::uint8_t send_waits = 1;  // the send lasts until its receiver has the message
inline constexpr std::uint8_t is_started = 2;  // MPI_Start began it: an earlier record is the call
inline constexpr std::uint8_t frees_old = 4;   // the reallocation has freed the old allocation
/// The call has made a collective operation that MPI_Start begins.
inline constexpr std::uint8_t makes_collective = 8;
}  // namespace trace_flag

/// An operation that has begun, or a persistent request.
struct traced_request {
  MPI_Request handle = MPI_REQUEST_NULL;  // MPI_REQUEST_NULL: this place in the table is free
  std::uint32_t record = 0;               // of what it has begun
  MPI_Comm communicator = MPI_COMM_NULL;
  std::uint32_t is_persistent = 0;
  trace_record pattern{};  // persistent: of each record of MPI_Start
};

/// A rank's part of the trace.
struct rank_trace {
  std::uint32_t written = 0;  // records, with those that did not fit
  std::uint32_t open = 0;     // requests in the table
  std::uint32_t places = 0;   // of the table: 0 or a power of two
  std::uint32_t spares = 0;   // elements of `statuses`
  std::uint32_t saved = 0;    // elements of `handles`
  std::uint32_t unused = 0;
  std::uint64_t added = 0;  // CPU: to the time that the lane has run, modulo 2^64 (own_time)
  std::uint64_t ended = 0;  // CPU: the rank's own time at its end; 0: it has not ended
  traced_request* requests = nullptr;  // a hash table with linear probing; of the heap
  MPI_Status* statuses = nullptr;      // for calls with MPI_STATUS_IGNORE; of the heap
  MPI_Request* handles = nullptr;      // as they were before a call; of the heap
};

/// CPU: lets the rank's own time go on by `nanoseconds` from `before`, however long it has run
/// since. No effect without a trace.
void set_own_time(std::uint64_t before, std::uint64_t nanoseconds);

/// CPU: how long the rank itself has run and slept, in nanoseconds. 0 without a trace.
[[nodiscard]] std::uint64_t own_time();

/// CPU: how long the calling thread has run.
[[nodiscard]] std::uint64_t thread_time_ns();

/// CPU: the rank ends.
void note_end_of_rank();

}  // namespace quarry::inline QUARRY_ABI::mpi

/// What the compiler emits. `role_and_function` is the role times 65,536, and the number of the
/// function's name. The place of a call through a pointer is 0: the rank knows it. Each begin
/// returns what its end needs. `error` is what the call has returned: a call that fails has no
/// message, unless it cuts one.
extern "C" {
/// A call with a communicator, a peer or a root, or none of these. The arguments are those of MPI.
QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin(std::uint32_t role_and_function,
                                                 std::uint32_t place, int count, MPI_Datatype type,
                                                 int peer, int tag, MPI_Comm communicator);
QUARRY_SLOW void quarry_mpi_trace_end(std::uint32_t record);
/// The end of a send, or of a collective operation.
QUARRY_SLOW void quarry_mpi_trace_end_send(std::uint32_t record, int error);
/// The end of a call that receives, or that looks for a message. `flag` is null if it always has a
/// message then.
QUARRY_SLOW void quarry_mpi_trace_end_receive(std::uint32_t record, MPI_Comm communicator,
                                              int const* flag, MPI_Status const* status, int error);
/// The end of a call that makes a request.
QUARRY_SLOW void quarry_mpi_trace_end_begun(std::uint32_t record, MPI_Comm communicator,
                                            MPI_Request const* request, std::uint32_t persistent,
                                            int error);
QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin_wait(std::uint32_t role_and_function,
                                                      std::uint32_t place, int count,
                                                      MPI_Request const* requests);
/// The end of a wait or test. Without `done`, all are complete, or the one that `indices` names.
/// Without `indices`, `done` says whether all are.
QUARRY_SLOW void quarry_mpi_trace_end_wait(std::uint32_t record, int count,
                                           MPI_Request const* requests, int const* done,
                                           int const* indices, MPI_Status const* statuses);
/// After MPI_Start or MPI_Startall. The record of what a request begins has the function that
/// made the request. A call that fails may have begun some of the requests.
QUARRY_SLOW void quarry_mpi_trace_end_start(std::uint32_t record, int count,
                                            MPI_Request const* requests, int error);
/// Before MPI_Request_free.
QUARRY_SLOW void quarry_mpi_trace_forget(MPI_Request const* request);
/// `statuses`, or memory in their place if they are MPI_STATUS_IGNORE.
QUARRY_SLOW MPI_Status* quarry_mpi_trace_statuses(MPI_Status* statuses, int count);
QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin_memory(std::uint32_t role_and_function,
                                                        std::uint32_t place, std::uint64_t size,
                                                        std::uint64_t count, void* old);
QUARRY_SLOW void quarry_mpi_trace_end_memory(std::uint32_t record, void* result);
}
