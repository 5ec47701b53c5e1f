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

/// Begins a send of checked arguments, and gives it a request. `start(own)` is a call of
/// `start_send` with memory for the message.
template <class Start>
QUARRY_HD void begin_isend(rank_state& rank, membership& at, int to, MPI_Comm handle,
                           MPI_Request* result, Start const& start) {
  if (to == MPI_PROC_NULL) {
    *result = sent_request;
    return;
  }
  request* const made = new_request(rank, result);
  made->what = request::kind::send;
  made->count = at.shared->world_rank(static_cast<std::uint32_t>(to), rank.rank);
  made->communicator = handle;
  made->source = MPI_ANY_SOURCE;  // an empty status
  made->tag = MPI_ANY_TAG;
  made->sent = start(message_of(*made));
  rank.send_waits = made->sent != nullptr ? 1 : 0;
  if (made->sent != nullptr) return;
  delete_request(rank, made);
  *result = sent_request;
}

/// The status and the error of a receive that is done.
QUARRY_SLOW int finish_receive(rank_state& rank, MPI_Comm handle, request const& done,
                               MPI_Status* status, char const* function);

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

/// Checks the arguments of a send and of a receive in one call, and prepares the receive. Returns
/// an MPI error code, which was reported.
QUARRY_SLOW int prepare_exchange(rank_state& rank, MPI_Comm handle, std::int64_t sent_count,
                                 MPI_Datatype sent_type, int to, int sent_tag, void* received,
                                 int received_count, MPI_Datatype received_type, int from,
                                 int received_tag, char const* function, membership*& found,
                                 request& wanted);

/// The status of a probe. `found` is null if the message is in the mailbox or if there is none,
/// because the source is MPI_PROC_NULL; `probe` is done then.
QUARRY_HD inline void set_probed(MPI_Status* status, request const& probe, message const* found) {
  if (found == nullptr) return set_status(status, probe.source, probe.tag, probe.size);
  set_status(status, static_cast<std::int32_t>(found->head.source),
             static_cast<std::int32_t>(found->head.tag), found->size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
