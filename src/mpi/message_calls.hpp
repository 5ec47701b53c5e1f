// SPDX-License-Identifier: Apache-2.0
// What MPI's functions for messages share.
#pragma once

#include "point_to_point.hpp"
#include "requests.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Checks the arguments of a send, a receive or a probe. Sets `found` to the caller's membership
/// and returns MPI_SUCCESS, or reports an error and returns its code.
QUARRY_SLOW int check_message(rank_state& rank, MPI_Comm handle, std::int64_t count,
                              MPI_Datatype type, std::int32_t peer, std::int32_t tag, bool receives,
                              char const* function, membership*& found);

/// MPI_Sendrecv without the path for brief messages. `how`: the mode of the send.
QUARRY_SLOW int sendrecv_checked(void const* sent, std::int64_t sent_count, MPI_Datatype sent_type,
                                 int to, int sent_tag, void* received, int received_count,
                                 MPI_Datatype received_type, int from, int received_tag,
                                 MPI_Comm communicator, MPI_Status* status, mode how,
                                 char const* function);

/// Prepares a receive. It is done at once if `from` is MPI_PROC_NULL.
QUARRY_HD inline void set_up(request& wanted, void* data, int count, MPI_Datatype type, int from,
                             int tag, membership const& at) {
  wanted.what = request::kind::receive;
  wanted.data = data;
  wanted.count = static_cast<std::uint64_t>(count);
  wanted.type = type;
  wanted.source = from;
  wanted.tag = tag;
  wanted.context = at.context;
  if (from == MPI_PROC_NULL) {
    wanted.tag = MPI_ANY_TAG;
    wanted.is_done = 1;
  }
}

/// The status of a probe; `found` is null for MPI_PROC_NULL.
QUARRY_HD inline void set_probed(MPI_Status* status, message const* found) {
  if (found == nullptr) return set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  set_status(status, static_cast<std::int32_t>(found->head.source),
             static_cast<std::int32_t>(found->head.tag), found->size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
