// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include "handles.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW request* new_request(rank_state& rank, MPI_Request* handle) {
  void* memory = nullptr;
  std::int32_t index = -1;
  wait_until(rank, reason_of(call::memory), [&] {
    if (memory == nullptr) memory = allocate(sizeof(request));
    if (index < 0) index = free_handle(rank.requests);
    return memory != nullptr && index >= 0;
  });
  auto* const made = ::new (memory) request{};
  rank.requests.entries[index] = made;
  *handle = index + 1;
  return made;
}

QUARRY_SLOW void free_request(rank_state& rank, MPI_Request* handle) {
  release(request_of(rank, *handle));
  rank.requests.entries[*handle - 1] = nullptr;
  *handle = MPI_REQUEST_NULL;
}

namespace {

QUARRY_HD void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  *status = {MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0};
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Wait(MPI_Request* handle, MPI_Status* status) {
  rank_state& rank = self();
  if (*handle == MPI_REQUEST_NULL) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  request* const asked = request_of(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Wait", "request", *handle);
  wait_until(rank, reason_of(call::wait, asked->source, asked->tag, asked->context),
             [&] { return is_complete(rank, *asked); });
  return finish(rank, handle, status, "MPI_Wait");
}

QUARRY_HD int MPI_Waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  int result = MPI_SUCCESS;
  for (int i = 0; i < count; ++i) {
    int const error =
        MPI_Wait(&handles[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
    if (error != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
  }
  return result;
}

QUARRY_HD int MPI_Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  *flag = 1;
  if (*handle == MPI_REQUEST_NULL) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  request* const asked = request_of(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Test", "request", *handle);
  progress(rank);
  if (is_complete(rank, *asked)) return finish(rank, handle, status, "MPI_Test");
  *flag = 0;
  simt::pause();
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  rank_state& rank = self();
  progress(rank);
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    request* const asked = request_of(rank, handles[i]);
    if (asked != nullptr && !is_complete(rank, *asked)) *flag = 0;
  }
  if (*flag != 0) return MPI_Waitall(count, handles, statuses);
  simt::pause();
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Testany(int count, MPI_Request* handles, int* index, int* flag,
                          MPI_Status* status) {
  rank_state& rank = self();
  progress(rank);
  bool has_active = false;
  for (int i = 0; i < count; ++i) {
    request* const asked = request_of(rank, handles[i]);
    if (asked == nullptr) continue;
    has_active = true;
    if (!is_complete(rank, *asked)) continue;
    *index = i;
    *flag = 1;
    return finish(rank, &handles[i], status, "MPI_Testany");
  }
  *index = MPI_UNDEFINED;
  *flag = has_active ? 0 : 1;
  if (has_active) {
    simt::pause();
  } else {
    set_empty(status);
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  rank_state& rank = self();
  *index = MPI_UNDEFINED;
  bool has_active = false;
  for (int i = 0; i < count; ++i) has_active |= request_of(rank, handles[i]) != nullptr;
  if (!has_active) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  wait_until(rank, reason_of(call::wait), [&] {
    for (int i = 0; i < count && *index == MPI_UNDEFINED; ++i) {
      request* const asked = request_of(rank, handles[i]);
      if (asked != nullptr && is_complete(rank, *asked)) *index = i;
    }
    return *index != MPI_UNDEFINED;
  });
  return finish(rank, &handles[*index], status, "MPI_Waitany");
}

QUARRY_HD int MPI_Waitsome(int count, MPI_Request* handles, int* done_count, int* indices,
                           MPI_Status* statuses) {
  rank_state& rank = self();
  int first = 0;
  int result = MPI_Waitany(count, handles, &first, statuses);
  if (first == MPI_UNDEFINED) {
    *done_count = MPI_UNDEFINED;
    return result;
  }
  indices[0] = first;
  *done_count = 1;
  for (int i = 0; i < count; ++i) {
    request* const asked = request_of(rank, handles[i]);
    if (asked == nullptr || !is_complete(rank, *asked)) continue;
    int const error =
        finish(rank, &handles[i],
               statuses == MPI_STATUSES_IGNORE ? statuses : &statuses[*done_count], "MPI_Waitsome");
    if (error != MPI_SUCCESS) result = error;
    indices[(*done_count)++] = i;
  }
  return result;
}

}  // extern "C"
