// SPDX-License-Identifier: Apache-2.0
// Operations that MPI_Start begins, as often as the program likes.
#include "persistent_requests.hpp"

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

}  // namespace

QUARRY_SLOW int check_inactive(rank_state& rank, MPI_Request handle, char const* function) {
  request const* const asked = request_of(rank, handle);
  if (asked == nullptr || asked->is_persistent == 0 || asked->is_active != 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, function, "request", handle);
  return MPI_SUCCESS;
}

namespace {

struct plain_start {
  rank_state& rank;
  QUARRY_HD void operator()(request& asked) const { start_pair(rank, asked, call::start); }
};

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
  return start_all(rank, 1, handle, plain_start{rank}, "MPI_Start");
}

QUARRY_HD int MPI_Startall(int count, MPI_Request* handles) {
  rank_state& rank = self();
  return start_all(rank, count, handles, plain_start{rank}, "MPI_Startall");
}

}  // extern "C"
