// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A new request and its handle. Waits if the heap has no memory.
[[nodiscard]] QUARRY_SLOW request* new_request(rank_state& rank, MPI_Request* handle);

/// The message of a send's request: it lies behind the request.
[[nodiscard]] QUARRY_HD inline message& message_of(request& send) {
  return *reinterpret_cast<message*>(&send + 1);
}

/// The handle of all sends that were complete when they began. Such a send has no request.
inline constexpr MPI_Request sent_request = 0x7fffffff;
#ifdef __CUDACC__
__device__
#endif
inline request complete_send{.what = request::kind::send,
                             .is_done = 1,
                             .source = MPI_ANY_SOURCE,
                             .tag = MPI_ANY_TAG};  // nobody changes it

/// The request with this handle; null for MPI_REQUEST_NULL and unknown handles.
[[nodiscard]] QUARRY_HD inline request* request_of(rank_state& rank, MPI_Request handle) {
  if (handle == sent_request) return &complete_send;
  auto const index = static_cast<std::uint32_t>(handle - 1);
  request* const found = index < rank.requests.capacity ? rank.requests.entries[index] : nullptr;
  return found != nullptr && found->what != request::kind::none ? found : nullptr;
}

/// The same; null also for a persistent request that is not active. For calls that complete
/// requests, such a handle is as MPI_REQUEST_NULL.
[[nodiscard]] QUARRY_HD inline request* pending_request(rank_state& rank, MPI_Request handle) {
  request* const found = request_of(rank, handle);
  return found != nullptr && found->is_active != 0 ? found : nullptr;
}

/// A rank keeps this many requests, with their handles, for reuse.
inline constexpr std::uint32_t most_spare_requests = 16;

/// A spare request and its handle; null if there is none.
[[nodiscard]] QUARRY_FAST request* take_spare_request(rank_state& rank, MPI_Request* handle) {
  request* const spare = rank.spare_request;
  if (spare == nullptr) return nullptr;
  rank.spare_request = spare->next;
  --rank.spare_requests;
  *handle = spare->handle;
  return spare;
}
QUARRY_FAST void make_spare(rank_state& rank, request* done) {
  done->what = request::kind::none;
  done->next = rank.spare_request;
  rank.spare_request = done;
  ++rank.spare_requests;
}

/// Frees the request and its handle. It is not `complete_send`.
QUARRY_SLOW void delete_request(rank_state& rank, request* done);

/// Completes a receive whose request or communicator is freed.
QUARRY_SLOW void finish_freed(rank_state& rank, request& done);

/// MPI_Comm_free: receives that are not complete keep the communicator's error handler, which they
/// need if their message is too long. Nothing else of the communicator is needed then.
QUARRY_SLOW void keep_handler(rank_state& rank, MPI_Comm freed, MPI_Errhandler handler);

/// Whether the operation is done. Does not make progress.
[[nodiscard]] QUARRY_SLOW bool is_complete(rank_state& rank, request& asked);

/// Frees the memory of operations that have ended after MPI_Request_free.
QUARRY_SLOW void delete_freed(rank_state& rank);

/// What requests of these kinds need: whether they are done; to free their memory. A generalized
/// request is freed before by `end_generalized`, which returns the error of the program's function.
[[nodiscard]] QUARRY_SLOW bool is_pair_complete(request& pair);
/// The same for one message that is sent or received.
[[nodiscard]] QUARRY_SLOW bool is_message_complete(request& asked);
QUARRY_SLOW void delete_pair(rank_state& rank, request& pair);
[[nodiscard]] QUARRY_SLOW bool is_generalized_complete(request& asked);
QUARRY_SLOW int end_generalized(request& done);
QUARRY_SLOW int cancel_generalized(request& asked);

/// Reports and frees a request that is done. Returns the operation's error.
QUARRY_SLOW int finish(rank_state& rank, MPI_Request* handle, MPI_Status* status,
                       char const* function);

QUARRY_HD inline void set_status(MPI_Status* status, std::int32_t source, std::int32_t tag,
                                 bytes size) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;  // MPI_ERROR changes only in calls that return MPI_ERR_IN_STATUS
  status->is_cancelled = 0;
  status->byte_count = static_cast<long long>(size);
}

/// The status of MPI_REQUEST_NULL.
QUARRY_HD inline void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  *status = {MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0};
}

/// The status of an operation that is done.
QUARRY_SLOW void set_status(MPI_Status* status, request const& done);

}  // namespace quarry::inline QUARRY_ABI::mpi
