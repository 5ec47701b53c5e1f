// SPDX-License-Identifier: Apache-2.0
// Requests for operations of the program's own.
#include "requests.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// What the program has given to MPI_Grequest_start.
struct generalized_operation {
  MPI_Grequest_query_function* query;
  MPI_Grequest_free_function* free;
  MPI_Grequest_cancel_function* cancel;
  void* state;
  std::uint32_t is_complete;  // MPI_Grequest_complete was called
};

[[nodiscard]] QUARRY_HD generalized_operation* operation_of(request& asked) {
  return static_cast<generalized_operation*>(asked.data);
}

}  // namespace

/// Asks the program for the status once, when the operation is complete.
QUARRY_SLOW bool is_generalized_complete(request& asked) {
  if (asked.is_done != 0) return true;
  generalized_operation const& operation = *operation_of(asked);
  if (operation.is_complete == 0) return false;
  MPI_Status status{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0};
  asked.error = operation.query(operation.state, &status);
  asked.source = status.MPI_SOURCE;
  asked.tag = status.MPI_TAG;
  asked.size = static_cast<bytes>(status.byte_count);
  asked.is_done = status.is_cancelled != 0 ? request::done_by_cancel : 1;
  return true;
}

QUARRY_SLOW int end_generalized(request& done) {
  generalized_operation* const operation = operation_of(done);
  if (operation == nullptr) return MPI_SUCCESS;  // the call that completed it has ended it
  int const error = operation->free(operation->state);
  done.data = nullptr;
  release(operation);
  return error;
}

QUARRY_SLOW int cancel_generalized(request& asked) {
  generalized_operation const& operation = *operation_of(asked);
  return operation.cancel(operation.state, operation.is_complete != 0);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Grequest_start(MPI_Grequest_query_function* query,
                                 MPI_Grequest_free_function* free,
                                 MPI_Grequest_cancel_function* cancel, void* state,
                                 MPI_Request* request) {
  rank_state& rank = self();
  if (query == nullptr || free == nullptr || cancel == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Grequest_start", "function", 0);
  void* const memory = wait_for_memory(rank, reason_of(call::memory),
                                       [] { return allocate(sizeof(generalized_operation)); });
  auto* const made = new_request(rank, request);
  made->what = quarry::mpi::request::kind::generalized;
  made->data = ::new (memory) generalized_operation{query, free, cancel, state, 0};
  made->communicator = MPI_COMM_WORLD;
  made->source = MPI_ANY_SOURCE;
  made->tag = MPI_ANY_TAG;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Grequest_complete(MPI_Request handle) {
  rank_state& rank = self();
  request* const asked = request_of(rank, handle);
  if (asked == nullptr || asked->what != request::kind::generalized)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Grequest_complete", "request", handle);
  operation_of(*asked)->is_complete = 1;
  if (asked->freed == request::handle_kind::request) delete_freed(rank);
  return MPI_SUCCESS;
}

}  // extern "C"
