// SPDX-License-Identifier: Apache-2.0
// Messages that MPI_Mprobe has taken from the list of unexpected messages, until MPI_Mrecv.
#include "handles.hpp"
#include "message_calls.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The handle of the message `found`; that without a message if it is null.
QUARRY_HD MPI_Message keep(rank_state& rank, std::int32_t index, message* found) {
  if (found == nullptr) return MPI_MESSAGE_NO_PROC;
  rank.matched.entries[index] = found;
  return index + 1;
}

/// The message with this handle; null for MPI_MESSAGE_NO_PROC. Returns an MPI error code.
QUARRY_SLOW int find_matched(rank_state& rank, MPI_Message handle, char const* function,
                             message*& found) {
  found = nullptr;
  if (handle == MPI_MESSAGE_NO_PROC) return MPI_SUCCESS;
  auto const index = static_cast<std::uint32_t>(handle - 1);
  if (index < rank.matched.capacity) found = rank.matched.entries[index];
  return found != nullptr
             ? MPI_SUCCESS
             : fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, function, "message", handle);
}

/// The communicator of the message, for errors; MPI_COMM_WORLD if it was freed.
[[nodiscard]] QUARRY_SLOW MPI_Comm communicator_of(rank_state& rank, message const* found) {
  for (std::uint32_t i = 0; found != nullptr && i < rank.memberships; ++i)
    if (rank.member_of[i].shared != nullptr && rank.member_of[i].context == found->head.context())
      return static_cast<MPI_Comm>(i + 1);
  return MPI_COMM_WORLD;
}

/// Checks the arguments of MPI_Mrecv and MPI_Imrecv. Returns an MPI error code.
QUARRY_SLOW int check_matched(rank_state& rank, int count, MPI_Datatype type, MPI_Message handle,
                              char const* function, message*& found) {
  if (int const error = find_matched(rank, handle, function, found)) return error;
  MPI_Comm const communicator = communicator_of(rank, found);
  if (count < 0) return fail(rank, communicator, MPI_ERR_COUNT, function, "count", count);
  if (!is_type(rank, type))
    return fail(rank, communicator, MPI_ERR_TYPE, function, "datatype", type);
  return MPI_SUCCESS;
}

/// Receives the message and frees its handle.
QUARRY_SLOW void take_matched(rank_state& rank, request& wanted, void* data, int count,
                              MPI_Datatype type, MPI_Message* handle, message* found) {
  wanted.what = request::kind::receive;
  wanted.data = data;
  wanted.count = static_cast<std::uint64_t>(count);
  wanted.type = type;
  wanted.source = MPI_PROC_NULL;
  wanted.tag = MPI_ANY_TAG;
  wanted.is_done = 1;
  wanted.communicator = communicator_of(rank, found);
  if (found != nullptr) {
    free_entry(rank.matched, *handle - 1);
    receive_message(rank, wanted, found);
  }
  *handle = MPI_MESSAGE_NULL;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Mprobe(int from, int tag, MPI_Comm communicator, MPI_Message* handle,
                         MPI_Status* status) {
  char const* const name = "MPI_Mprobe";
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, communicator, 0, MPI_BYTE, from, tag, true, name, at))
    return error;
  std::int32_t const index = free_handle(rank.matched);
  if (index < 0) return fail(rank, communicator, MPI_ERR_NO_MEM, name, "size", sizeof(message*));
  request wanted;
  set_up(wanted, nullptr, 0, MPI_BYTE, from, tag, *at);
  message* found = nullptr;
  wait_for_message(rank, reason_of(call::mprobe, from, tag, wanted.context), [&] {
    found = from == MPI_PROC_NULL ? nullptr : find_unexpected(rank, wanted, true);
    return found != nullptr || from == MPI_PROC_NULL;
  });
  set_probed(status, wanted, found);
  *handle = keep(rank, index, found);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Improbe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Message* handle,
                          MPI_Status* status) {
  char const* const name = "MPI_Improbe";
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, communicator, 0, MPI_BYTE, from, tag, true, name, at))
    return error;
  std::int32_t const index = free_handle(rank.matched);
  if (index < 0) return fail(rank, communicator, MPI_ERR_NO_MEM, name, "size", sizeof(message*));
  request wanted;
  set_up(wanted, nullptr, 0, MPI_BYTE, from, tag, *at);
  progress(rank);
  message* const found = from == MPI_PROC_NULL ? nullptr : find_unexpected(rank, wanted, true);
  *flag = found != nullptr || from == MPI_PROC_NULL;
  if (*flag == 0) return end_look(rank, communicator, name);
  set_probed(status, wanted, found);
  *handle = keep(rank, index, found);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* handle,
                        MPI_Status* status) {
  rank_state& rank = self();
  message* found = nullptr;
  if (int const error = check_matched(rank, count, type, *handle, "MPI_Mrecv", found)) return error;
  request wanted;
  take_matched(rank, wanted, data, count, type, handle, found);
  set_status(status, wanted);
  return wanted.error == MPI_SUCCESS
             ? MPI_SUCCESS
             : fail(rank, wanted.communicator, wanted.error, "MPI_Mrecv", "count", count);
}

QUARRY_HD int MPI_Imrecv(void* data, int count, MPI_Datatype type, MPI_Message* handle,
                         MPI_Request* request) {
  rank_state& rank = self();
  message* found = nullptr;
  if (int const error = check_matched(rank, count, type, *handle, "MPI_Imrecv", found))
    return error;
  auto* const made = new_request(rank, request);
  retain_type(rank, type);
  take_matched(rank, *made, data, count, type, handle, found);
  return MPI_SUCCESS;
}

}  // extern "C"
