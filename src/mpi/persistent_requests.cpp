// SPDX-License-Identifier: Apache-2.0
// Operations that MPI_Start begins, as often as the program likes.
#include "buffered_sends.hpp"
#include "operation_pair.hpp"
#include "schedule.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The request is not active, and the status of its last operation was given away.
QUARRY_HD void make_persistent(request& made) {
  made.is_persistent = 1;
  made.is_active = 0;
  made.is_done = 1;
}

QUARRY_SLOW int send_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                          MPI_Comm handle, mode how, MPI_Request* result, char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, count, type, to, tag, false, function, at))
    return error;
  make_persistent(*new_pair(rank, handle, *at, {const_cast<void*>(data), count, type, to, tag, 1},
                            {}, how, result));
  return MPI_SUCCESS;
}

/// Returns an MPI error code.
QUARRY_SLOW int check_inactive(rank_state& rank, MPI_Request handle, char const* function) {
  request const* const asked = request_of(rank, handle);
  if (asked == nullptr || asked->is_persistent == 0 || asked->is_active != 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, function, "request", handle);
  return MPI_SUCCESS;
}

/// Begins the operation of a request that is not active. Returns an MPI error code.
QUARRY_SLOW int start(rank_state& rank, MPI_Request handle, char const* function) {
  request& asked = *request_of(rank, handle);
  bool const is_collective = asked.what == request::kind::collective;
  if (!is_collective) {
    operation_pair const& pair = operation_pair::of(asked);
    if (pair.how == mode::buffered &&
        !fits_buffer(rank, static_cast<bytes>(pair.sent.count), pair.sent.type))
      return fail(rank, asked.communicator, MPI_ERR_BUFFER, function, "count", pair.sent.count);
  }
  asked.is_active = 1;
  asked.is_done = 0;
  asked.error = MPI_SUCCESS;
  if (is_collective) {
    start_schedule(rank, schedule_of(asked));
  } else {
    start_pair(rank, asked, call::start);
  }
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Send_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm communicator, MPI_Request* request) {
  return send_init(data, count, type, to, tag, communicator, mode::standard, request,
                   "MPI_Send_init");
}
QUARRY_HD int MPI_Ssend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm communicator, MPI_Request* request) {
  return send_init(data, count, type, to, tag, communicator, mode::synchronous, request,
                   "MPI_Ssend_init");
}
QUARRY_HD int MPI_Bsend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm communicator, MPI_Request* request) {
  return send_init(data, count, type, to, tag, communicator, mode::buffered, request,
                   "MPI_Bsend_init");
}
QUARRY_HD int MPI_Rsend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm communicator, MPI_Request* request) {
  return send_init(data, count, type, to, tag, communicator, mode::standard, request,
                   "MPI_Rsend_init");
}

QUARRY_HD int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag,
                            MPI_Comm communicator, MPI_Request* request) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, count, type, from, tag, true, "MPI_Recv_init", at))
    return error;
  make_persistent(*new_pair(rank, communicator, *at, {}, {data, count, type, from, tag, 1},
                            mode::standard, request));
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Start(MPI_Request* handle) {
  rank_state& rank = self();
  if (int const error = check_inactive(rank, *handle, "MPI_Start")) return error;
  return start(rank, *handle, "MPI_Start");
}

/// After an error the requests before the one that failed are active.
QUARRY_HD int MPI_Startall(int count, MPI_Request* handles) {
  rank_state& rank = self();
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, "MPI_Startall", "count", count);
  for (int i = 0; i < count; ++i)
    if (int const error = check_inactive(rank, handles[i], "MPI_Startall")) return error;
  for (int i = 0; i < count; ++i)
    if (int const error = start(rank, handles[i], "MPI_Startall")) return error;
  return MPI_SUCCESS;
}

}  // extern "C"
