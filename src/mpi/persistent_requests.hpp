// SPDX-License-Identifier: Apache-2.0
// How MPI_Start begins operations.
#pragma once

#include "buffered_sends.hpp"
#include "operation_pair.hpp"
#include "schedule.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether MPI_Start can begin the request. Returns an MPI error code, which was reported.
QUARRY_SLOW int check_inactive(rank_state& rank, MPI_Request handle, char const* function);

/// Begins the operation of a request that is not active. Returns an MPI error code.
template <class StartPair>
QUARRY_HD int start_request(rank_state& rank, MPI_Request handle, StartPair const& start_messages,
                            char const* function) {
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
    start_messages(asked);
  }
  return MPI_SUCCESS;
}

/// MPI_Startall: begins each operation, or none if a request cannot begin. `start_messages(asked)`
/// begins one of messages. After another error the requests before the one that failed are active.
template <class StartPair>
QUARRY_HD int start_all(rank_state& rank, int count, MPI_Request const* handles,
                        StartPair const& start_messages, char const* function) {
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, function, "count", count);
  for (int i = 0; i < count; ++i)
    if (int const error = check_inactive(rank, handles[i], function)) return error;
  for (int i = 0; i < count; ++i)
    if (int const error = start_request(rank, handles[i], start_messages, function)) return error;
  return MPI_SUCCESS;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
