// SPDX-License-Identifier: Apache-2.0
// MPI_Start and MPI_Startall.
#include "schedule.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Returns an MPI error code.
QUARRY_SLOW int check_inactive(rank_state& rank, MPI_Request handle, char const* function) {
  request const* const asked = request_of(rank, handle);
  if (asked == nullptr || asked->is_persistent == 0 || asked->is_active != 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, function, "request", handle);
  return MPI_SUCCESS;
}

QUARRY_SLOW void start(rank_state& rank, MPI_Request handle) {
  request& asked = *request_of(rank, handle);
  asked.is_active = 1;
  asked.is_done = 0;
  asked.error = MPI_SUCCESS;
  if (asked.what == request::kind::collective) start_schedule(rank, schedule_of(asked));
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Start(MPI_Request* handle) {
  rank_state& rank = self();
  if (int const error = check_inactive(rank, *handle, "MPI_Start")) return error;
  start(rank, *handle);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Startall(int count, MPI_Request* handles) {
  rank_state& rank = self();
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, "MPI_Startall", "count", count);
  for (int i = 0; i < count; ++i)
    if (int const error = check_inactive(rank, handles[i], "MPI_Startall")) return error;
  for (int i = 0; i < count; ++i) start(rank, handles[i]);
  return MPI_SUCCESS;
}

}  // extern "C"
