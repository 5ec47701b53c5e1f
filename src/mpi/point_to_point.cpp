// SPDX-License-Identifier: Apache-2.0
#include "point_to_point.hpp"

#include "fast_path.hpp"
#include "requests.hpp"
#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW bool start_send(rank_state& rank, channel const& through, void const* data, bytes count,
                            MPI_Datatype type, std::int32_t to, std::int32_t tag, mode how,
                            std::uint32_t& done) {
  bytes const size = count * element_size(rank, type);
  bool const is_copied = size <= most_eager || how == mode::buffered || !is_shared_memory(data) ||
                         !is_dense(rank, type);
  message* sent = new_message(rank, is_copied ? size : 0);
  if (sent == nullptr) {
    wait_until(rank, reason_of(call::memory, to, tag, through.context), [&] {
      sent = new_message(rank, is_copied ? size : 0);
      return sent != nullptr;
    });
  }
  bool const is_awaited = !is_copied || how == mode::synchronous;
  sent->size = size;
  sent->source = static_cast<std::int32_t>(through.at->rank);
  sent->tag = tag;
  sent->context = through.context;
  sent->done = is_awaited ? &done : nullptr;
  if (is_awaited) done = 0;
  if (is_copied) {
    pack(rank, sent->inline_data(), data, count, type);
    sent->data = sent->inline_data();
  } else {
    sent->data = data;
  }
  std::uint32_t const target =
      through.at->shared->world_rank(static_cast<std::uint32_t>(to), rank.rank);
  mailbox{state_of(target)}.push(sent);
  note_activity();
  return is_awaited;
}

QUARRY_SLOW void send(rank_state& rank, channel const& through, void const* data, bytes count,
                      MPI_Datatype type, std::int32_t to, std::int32_t tag, mode how, call which) {
  std::uint32_t& done = rank.sent;
  if (!start_send(rank, through, data, count, type, to, tag, how, done)) return;
  wait_until(rank, reason_of(which, to, tag, through.context), [&] { return is_received(done); });
}

QUARRY_SLOW void receive(rank_state& rank, request& wanted, call which) {
  begin_receive(rank, wanted);
  if (wanted.is_done != 0) return;
  wait_until(rank, reason_of(which, wanted.source, wanted.tag, wanted.context),
             [&] { return wanted.is_done != 0; });
}

namespace {

/// Checks the arguments that all functions of this file share. Returns an MPI error code.
QUARRY_SLOW int check(rank_state& rank, MPI_Comm handle, std::int64_t count, MPI_Datatype type,
                      std::int32_t peer, std::int32_t tag, bool receives, char const* function,
                      membership*& found) {
  found = member(rank, handle);
  if (found == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (count < 0) return fail(rank, handle, MPI_ERR_COUNT, function, "count", count);
  if (!is_type(rank, type)) return fail(rank, handle, MPI_ERR_TYPE, function, "datatype", type);
  if (tag < 0 && !(receives && tag == MPI_ANY_TAG))
    return fail(rank, handle, MPI_ERR_TAG, function, "tag", tag);
  bool const is_wild = peer == MPI_PROC_NULL || (receives && peer == MPI_ANY_SOURCE);
  if (!is_wild && (peer < 0 || static_cast<std::uint32_t>(peer) >= found->size))
    return fail(rank, handle, MPI_ERR_RANK, function, "rank", peer);
  return MPI_SUCCESS;
}

/// Whether the program has attached a buffer that holds the message. The runtime does not use the
/// buffer: it copies the message to the heap.
QUARRY_HD bool fits_buffer(rank_state& rank, int count, MPI_Datatype type) {
  return rank.attached_buffer != nullptr && static_cast<bytes>(count) * element_size(rank, type) <=
                                                static_cast<bytes>(rank.attached_bytes);
}

QUARRY_SLOW int send_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm handle, mode how, call which, char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, handle, count, type, to, tag, false, function, at))
    return error;
  if (how == mode::buffered && !fits_buffer(rank, count, type))
    return fail(rank, handle, MPI_ERR_BUFFER, function, "count", count);
  if (to == MPI_PROC_NULL) return MPI_SUCCESS;
  send(rank, {at, at->context}, data, static_cast<bytes>(count), type, to, tag, how, which);
  return MPI_SUCCESS;
}

QUARRY_SLOW int isend_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                              MPI_Comm handle, mode how, MPI_Request* result,
                              char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, handle, count, type, to, tag, false, function, at))
    return error;
  if (how == mode::buffered && !fits_buffer(rank, count, type))
    return fail(rank, handle, MPI_ERR_BUFFER, function, "count", count);
  request* const made = new_request(rank, result);
  made->what = request::kind::send;
  made->communicator = handle;
  made->source = MPI_ANY_SOURCE;  // an empty status
  made->tag = MPI_ANY_TAG;
  bool const is_awaited =
      to != MPI_PROC_NULL && start_send(rank, {at, at->context}, data, static_cast<bytes>(count),
                                        type, to, tag, how, made->sent);
  made->is_done = is_awaited ? 0 : 1;
  return MPI_SUCCESS;
}

QUARRY_HD void set_up(request& wanted, void* data, int count, MPI_Datatype type, int from, int tag,
                      membership const& at) {
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

QUARRY_SLOW int finish_receive(rank_state& rank, MPI_Comm handle, request const& done,
                               MPI_Status* status, char const* function) {
  set_status(status, done.source, done.tag, done.size);
  return done.error == MPI_SUCCESS ? MPI_SUCCESS
                                   : fail(rank, handle, done.error, function, "count",
                                          static_cast<std::int64_t>(done.count));
}

QUARRY_SLOW int recv_checked(void* data, int count, MPI_Datatype type, int from, int tag,
                             MPI_Comm handle, MPI_Status* status, call which,
                             char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, handle, count, type, from, tag, true, function, at))
    return error;
  request wanted;
  set_up(wanted, data, count, type, from, tag, *at);
  if (wanted.is_done == 0) receive(rank, wanted, which);
  return finish_receive(rank, handle, wanted, status, function);
}

/// Sends and receives at once.
QUARRY_SLOW void exchange(rank_state& rank, membership& at, void const* sent, bytes count,
                          MPI_Datatype type, int to, int tag, request& wanted) {
  if (wanted.is_done == 0) begin_receive(rank, wanted);
  if (to != MPI_PROC_NULL)
    send(rank, {&at, at.shared->context}, sent, count, type, to, tag, mode::standard,
         call::sendrecv);
  wait_until(rank, reason_of(call::sendrecv, wanted.source, wanted.tag, wanted.context),
             [&] { return wanted.is_done != 0; });
}

}  // namespace

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag,
                       MPI_Comm communicator) {
  if (send_fast(data, count, type, to, tag, communicator)) return MPI_SUCCESS;
  return send_checked(data, count, type, to, tag, communicator, mode::standard, call::send,
                      "MPI_Send");
}
QUARRY_HD int MPI_Ssend(void const* data, int count, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator) {
  return send_checked(data, count, type, to, tag, communicator, mode::synchronous, call::ssend,
                      "MPI_Ssend");
}
QUARRY_HD int MPI_Rsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator) {
  return send_checked(data, count, type, to, tag, communicator, mode::standard, call::send,
                      "MPI_Rsend");
}
QUARRY_HD int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::standard, request,
                       "MPI_Isend");
}
QUARRY_HD int MPI_Issend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::synchronous, request,
                       "MPI_Issend");
}
QUARRY_HD int MPI_Irsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::standard, request,
                       "MPI_Irsend");
}

QUARRY_HD int MPI_Bsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator) {
  return send_checked(data, count, type, to, tag, communicator, mode::buffered, call::send,
                      "MPI_Bsend");
}
QUARRY_HD int MPI_Ibsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::buffered, request,
                       "MPI_Ibsend");
}

QUARRY_HD int MPI_Buffer_attach(void* buffer, int size) {
  rank_state& rank = self();
  if (rank.attached_buffer != nullptr || buffer == nullptr || size < 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_BUFFER, "MPI_Buffer_attach", "size", size);
  rank.attached_buffer = buffer;
  rank.attached_bytes = size;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Buffer_detach(void* buffer_address, int* size) {
  rank_state& rank = self();
  *static_cast<void**>(buffer_address) = rank.attached_buffer;
  *size = rank.attached_buffer != nullptr ? rank.attached_bytes : 0;
  rank.attached_buffer = nullptr;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag,
                       MPI_Comm communicator, MPI_Status* status) {
  if (receive_fast(data, count, type, from, tag, communicator, status)) return MPI_SUCCESS;
  return recv_checked(data, count, type, from, tag, communicator, status, call::recv, "MPI_Recv");
}

QUARRY_HD int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag,
                        MPI_Comm communicator, MPI_Request* request) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, communicator, count, type, from, tag, true, "MPI_Irecv", at))
    return error;
  auto* const made = new_request(rank, request);
  set_up(*made, data, count, type, from, tag, *at);
  made->communicator = communicator;
  retain_type(rank, type);
  if (made->is_done == 0) begin_receive(rank, *made);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Sendrecv(void const* sent, int sent_count, MPI_Datatype sent_type, int to,
                           int sent_tag, void* received, int received_count,
                           MPI_Datatype received_type, int from, int received_tag,
                           MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check(rank, communicator, sent_count, sent_type, to, sent_tag, false, "MPI_Sendrecv", at))
    return error;
  if (int const error = check(rank, communicator, received_count, received_type, from, received_tag,
                              true, "MPI_Sendrecv", at))
    return error;
  request wanted;
  set_up(wanted, received, received_count, received_type, from, received_tag, *at);
  exchange(rank, *at, sent, static_cast<bytes>(sent_count), sent_type, to, sent_tag, wanted);
  return finish_receive(rank, communicator, wanted, status, "MPI_Sendrecv");
}

QUARRY_HD int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag,
                                   int from, int received_tag, MPI_Comm communicator,
                                   MPI_Status* status) {
  char const* const name = "MPI_Sendrecv_replace";
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, communicator, count, type, to, sent_tag, false, name, at))
    return error;
  if (int const error = check(rank, communicator, count, type, from, received_tag, true, name, at))
    return error;
  bytes const size = static_cast<bytes>(count) * element_size(rank, type);
  scratch const packed{rank, size};
  pack(rank, packed.data(), data, static_cast<bytes>(count), type);
  request wanted;
  set_up(wanted, data, count, type, from, received_tag, *at);
  exchange(rank, *at, packed.data(), size, MPI_BYTE, to, sent_tag, wanted);
  return finish_receive(rank, communicator, wanted, status, name);
}

QUARRY_HD int MPI_Probe(int from, int tag, MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, communicator, 0, MPI_BYTE, from, tag, true, "MPI_Probe", at))
    return error;
  request wanted;
  set_up(wanted, nullptr, 0, MPI_BYTE, from, tag, *at);
  message* found = nullptr;
  wait_until(rank, reason_of(call::probe, from, tag, wanted.context), [&] {
    found = from == MPI_PROC_NULL ? nullptr : find_unexpected(rank, wanted, false);
    return found != nullptr || from == MPI_PROC_NULL;
  });
  set_status(status, found == nullptr ? MPI_PROC_NULL : found->source,
             found == nullptr ? MPI_ANY_TAG : found->tag, found == nullptr ? 0 : found->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Iprobe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check(rank, communicator, 0, MPI_BYTE, from, tag, true, "MPI_Iprobe", at))
    return error;
  request wanted;
  set_up(wanted, nullptr, 0, MPI_BYTE, from, tag, *at);
  progress(rank);
  message const* const found =
      from == MPI_PROC_NULL ? nullptr : find_unexpected(rank, wanted, false);
  *flag = found != nullptr || from == MPI_PROC_NULL;
  if (*flag == 0) {
    yield_rank();
    return MPI_SUCCESS;
  }
  set_status(status, found == nullptr ? MPI_PROC_NULL : found->source,
             found == nullptr ? MPI_ANY_TAG : found->tag, found == nullptr ? 0 : found->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Get_count(MPI_Status const* status, MPI_Datatype type, int* count) {
  rank_state& rank = self();
  if (!is_type(rank, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Get_count", "datatype", type);
  bytes const size = element_size(rank, type);
  auto const got = static_cast<bytes>(status->byte_count);
  bool const is_whole = size == 0 ? got == 0 : got % size == 0 && got / size <= 0x7fffffff;
  *count = !is_whole ? MPI_UNDEFINED : size == 0 ? 0 : static_cast<int>(got / size);
  return MPI_SUCCESS;
}

}  // extern "C"
