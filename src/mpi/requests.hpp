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
  auto const index = static_cast<std::uint32_t>(handle - 1);
  if (handle == sent_request) return &complete_send;
  return index < rank.requests.capacity ? rank.requests.entries[index] : nullptr;
}

/// Frees the request and its handle. It is not `sent_request`.
QUARRY_SLOW void free_request(rank_state& rank, MPI_Request* handle);

/// Frees the request's memory. The rank keeps some requests for reuse.
QUARRY_SLOW void delete_request(rank_state& rank, request* done);

/// Whether the operation is done. Does not make progress.
[[nodiscard]] QUARRY_SLOW bool is_complete(rank_state& rank, request& asked);

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

}  // namespace quarry::inline QUARRY_ABI::mpi
