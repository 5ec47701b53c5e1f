// SPDX-License-Identifier: Apache-2.0
// MPI's functions that send and receive messages, and probe for them.
#include "message_calls.hpp"

#include "buffered_sends.hpp"
#include "fast_path.hpp"
#include "long_messages.hpp"
#include "point_to_point.hpp"
#include "requests.hpp"
#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
QUARRY_SLOW int check_message(rank_state& rank, MPI_Comm handle, std::int64_t count,
                              MPI_Datatype type, std::int32_t peer, std::int32_t tag, bool receives,
                              char const* function, membership*& found) {
  found = member(rank, handle);
  if (found == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (count < 0) return fail(rank, handle, MPI_ERR_COUNT, function, "count", count);
  // programs give no type for a message that does not exist
  bool const needs_type = type != MPI_DATATYPE_NULL || count != 0 || peer != MPI_PROC_NULL;
  if (needs_type && !is_type(rank, type))
    return fail(rank, handle, MPI_ERR_TYPE, function, "datatype", type);
  if (tag < 0 && !(receives && tag == MPI_ANY_TAG))
    return fail(rank, handle, MPI_ERR_TAG, function, "tag", tag);
  bool const is_wild = peer == MPI_PROC_NULL || (receives && peer == MPI_ANY_SOURCE);
  if (!is_wild && (peer < 0 || static_cast<std::uint32_t>(peer) >= found->size))
    return fail(rank, handle, MPI_ERR_RANK, function, "rank", peer);
  return MPI_SUCCESS;
}

namespace {

/// Sends a message of a plain type that is too long for an extension in a kept message that is
/// free, if nothing speaks against it. Returns false, and has done nothing, otherwise.
[[nodiscard]] QUARRY_HD bool send_kept(rank_state& rank, void const* data, int count,
                                       MPI_Datatype type, int to, int tag, MPI_Comm handle,
                                       call which) {
  bytes const size = static_cast<bytes>(count) * (static_cast<std::uint32_t>(type) >> 8);
  small_membership at;
  if (count < 0 || small_size(0, type) != 0 || size > most_eager || size <= extended_bytes() ||
      tag < 0 || !find_membership(rank, handle, at) || static_cast<std::uint32_t>(to) >= at.size)
    return false;
#ifdef QUARRY_MPI_PROCESSES
  auto const receiver = static_cast<std::uint32_t>(to);
  if (!is_near(at.shared != nullptr ? at.shared->world_rank(receiver, own_rank()) : receiver))
    return false;
#endif
  message* const kept = free_kept(rank, size);
  if (kept == nullptr) return false;
  kept->is_taken = 0;
  kept->size = size;
  kept->head = {static_cast<std::uint32_t>(tag), at.rank, at.context << 8};
  copy_bytes(kept->inline_data(), data, size);
  auto target = static_cast<std::uint32_t>(to);
  if (at.shared != nullptr) target = at.shared->world_rank(target, own_rank());
  post(rank, target, *kept, reason_of(which, to, tag, at.context));
  return true;
}

}  // namespace

QUARRY_SLOW int send_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm handle, mode how, call which, char const* function) {
  rank_state& rank = self();
  if (how == mode::standard && send_kept(rank, data, count, type, to, tag, handle, which))
    return MPI_SUCCESS;
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, count, type, to, tag, false, function, at))
    return error;
  if (how == mode::buffered && !fits_buffer(rank, static_cast<bytes>(count), type))
    return fail(rank, handle, MPI_ERR_BUFFER, function, "bytes attached",
                rank.attached_buffer != nullptr ? rank.attached_bytes : 0);
  if (to == MPI_PROC_NULL) return MPI_SUCCESS;
  send(rank, {at, at->context}, data, static_cast<bytes>(count), type, to, tag, how, which);
  return MPI_SUCCESS;
}

QUARRY_SLOW int isend_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                              MPI_Comm handle, mode how, call which, MPI_Request* result,
                              char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, count, type, to, tag, false, function, at))
    return error;
  if (how == mode::buffered && !fits_buffer(rank, static_cast<bytes>(count), type))
    return fail(rank, handle, MPI_ERR_BUFFER, function, "bytes attached",
                rank.attached_buffer != nullptr ? rank.attached_bytes : 0);
  begin_isend(rank, *at, to, handle, result, [&](message& own) {
    return start_send(rank, {at, at->context}, data, static_cast<bytes>(count), type, to, tag, how,
                      which, own);
  });
  return MPI_SUCCESS;
}

QUARRY_SLOW int finish_receive(rank_state& rank, MPI_Comm handle, request const& done,
                               MPI_Status* status, char const* function) {
  set_status(status, done.source, done.tag, done.size);
  return done.error == MPI_SUCCESS ? MPI_SUCCESS
                                   : fail(rank, handle, done.error, function, "count",
                                          static_cast<std::int64_t>(done.count));
}

namespace {

QUARRY_SLOW int recv_checked(void* data, int count, MPI_Datatype type, int from, int tag,
                             MPI_Comm handle, MPI_Status* status, call which,
                             char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, count, type, from, tag, true, function, at))
    return error;
  request wanted;
  set_up(wanted, data, count, type, from, tag, *at);
  if (wanted.is_done == 0) receive(rank, wanted, which);
  return finish_receive(rank, handle, wanted, status, function);
}

QUARRY_SLOW int irecv_checked(void* data, int count, MPI_Datatype type, int from, int tag,
                              MPI_Comm communicator, MPI_Request* request) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, count, type, from, tag, true, "MPI_Irecv", at))
    return error;
  auto* const made = new_request(rank, request);
  set_up(*made, data, count, type, from, tag, *at);
  made->communicator = communicator;
  retain_type(rank, type);
  if (made->is_done == 0) begin_receive(rank, *made);
  return MPI_SUCCESS;
}

/// Sends a small message whose ticket was drawn.
QUARRY_SLOW int send_with_ticket(void const* data, int count, MPI_Datatype type, int to, int tag,
                                 MPI_Comm handle, std::uint32_t ticket, call which) {
  rank_state& rank = self();
  small_message made{};
  std::uint32_t target = 0;
  (void)is_small_send(rank, data, count, type, to, tag, handle, made, target);
  sender_slot slot{mailbox_of(target), way_to(target), ticket};
  wait_for_slot(rank, slot, reason_of(which, to, tag, made.head.context()));
  made.write(slot);
  return MPI_SUCCESS;
}

/// Receives the message that has arrived and is not in the slot. Returns false, and has done
/// nothing, if it is not wanted.
[[nodiscard]] QUARRY_HD bool take_elsewhere(rank_state& rank, own_mail_reader& mails,
                                            own_mail_reader::arrival const& arrived,
                                            plain_receive const& wanted, MPI_Status* status) {
  if (!is_wanted(wanted, arrived.head) || (arrived.head.about & envelope::is_elsewhere) == 0 ||
      is_part(arrived.head))
    return false;
  mails.acquire();
  message* const found = message_elsewhere(arrived);
  if (found->size > wanted.room || found->is_signed()) return false;
  take_message(mails);
  set_status(status, static_cast<std::int32_t>(found->head.source),
             static_cast<std::int32_t>(found->head.tag), found->size);
  copy_bytes(wanted.data, found->data, found->size);
  finish_message(rank, found);
  return true;
}

/// Receives what the path without calls has not received.
QUARRY_SLOW int recv_later(void* data, int count, MPI_Datatype type, int from, int tag,
                           MPI_Comm handle, MPI_Status* status, call which, char const* function) {
  rank_state& rank = self();
  plain_receive wanted;
  if (rank.schedules == nullptr &&
      is_plain_receive(rank, data, count, type, from, tag, handle, wanted)) {
    fast_receive const before = receive_unexpected(rank, wanted, status);
    if (before == fast_receive::taken) return MPI_SUCCESS;
    own_mail_reader mails = reader_of(rank);
    while (before == fast_receive::none) {
      own_mail_reader::arrival arrived;
      poll_mailbox(rank, reason_of(which, from, tag, wanted.context),
                   [&] { return mails.look(arrived); });
      if (take_fast(mails, arrived, wanted, status) ||
          take_elsewhere(rank, mails, arrived, wanted, status))
        return MPI_SUCCESS;
      bool const is_wanted_here = is_wanted(wanted, arrived.head);
      if (is_wanted_here && is_here(arrived) && arrived.size() <= wanted.room)
        return receive_longer(wanted.data, arrived.size(), arrived.head.source, arrived.head.tag,
                              status);
      if (is_wanted_here || !set_aside<most_inline>(rank, mails, arrived)) break;
    }
  }
  return recv_checked(data, count, type, from, tag, handle, status, which, function);
}

/// Prepares a probe, which leaves the message where it is. It is done at once if `from` is
/// MPI_PROC_NULL.
QUARRY_HD void set_up_probe(request& wanted, int from, int tag, membership const& at) {
  set_up(wanted, nullptr, 0, MPI_BYTE, from, tag, at);
  wanted.what = request::kind::probe;
}

/// Whether the probe is done, or `found`: the first unexpected message that matches.
[[nodiscard]] QUARRY_HD bool has_found(rank_state& rank, request const& wanted,
                                       message const*& found) {
  if (wanted.is_done == 0) found = find_unexpected(rank, wanted, false);
  return found != nullptr || wanted.is_done != 0;
}

/// Sends and receives at once.
QUARRY_SLOW void exchange(rank_state& rank, membership& at, void const* sent, bytes count,
                          MPI_Datatype type, int to, int tag, request& wanted) {
  if (wanted.is_done == 0) begin_receive(rank, wanted);
  if (to != MPI_PROC_NULL)
    send(rank, {&at, at.shared->context}, sent, count, type, to, tag, mode::standard,
         call::sendrecv);
  wait_for_receive(rank, reason_of(call::sendrecv, wanted.source, wanted.tag, wanted.context),
                   wanted);
}

QUARRY_SLOW int sendrecv_checked(void const* sent, std::int64_t sent_count, MPI_Datatype sent_type,
                                 int to, int sent_tag, void* received, int received_count,
                                 MPI_Datatype received_type, int from, int received_tag,
                                 MPI_Comm communicator, MPI_Status* status, char const* function) {
  rank_state& rank = self();
  plain_receive plain;
  if (is_plain_receive(rank, received, received_count, received_type, from, received_tag,
                       communicator, plain) &&
      sent_count <= static_cast<std::int64_t>(most_extended) &&
      send_for_exchange(sent, static_cast<int>(sent_count), sent_type, to, sent_tag, communicator))
    return recv_later(received, received_count, received_type, from, received_tag, communicator,
                      status, call::sendrecv, function);
  membership* at = nullptr;
  request wanted;
  if (int const error =
          prepare_exchange(rank, communicator, sent_count, sent_type, to, sent_tag, received,
                           received_count, received_type, from, received_tag, function, at, wanted))
    return error;
  exchange(rank, *at, sent, static_cast<bytes>(sent_count), sent_type, to, sent_tag, wanted);
  return finish_receive(rank, communicator, wanted, status, function);
}

/// Sends a small message whose ticket was drawn, and receives.
QUARRY_SLOW int sendrecv_with_ticket(void const* sent, int sent_count, MPI_Datatype sent_type,
                                     int to, int sent_tag, void* received, int received_count,
                                     MPI_Datatype received_type, int from, int received_tag,
                                     MPI_Comm communicator, MPI_Status* status,
                                     std::uint32_t ticket) {
  (void)send_with_ticket(sent, sent_count, sent_type, to, sent_tag, communicator, ticket,
                         call::sendrecv);
  return recv_later(received, received_count, received_type, from, received_tag, communicator,
                    status, call::sendrecv, "MPI_Sendrecv");
}

}  // namespace

QUARRY_SLOW int prepare_exchange(rank_state& rank, MPI_Comm handle, std::int64_t sent_count,
                                 MPI_Datatype sent_type, int to, int sent_tag, void* received,
                                 int received_count, MPI_Datatype received_type, int from,
                                 int received_tag, char const* function, membership*& found,
                                 request& wanted) {
  if (int const error =
          check_message(rank, handle, sent_count, sent_type, to, sent_tag, false, function, found))
    return error;
  if (int const error = check_message(rank, handle, received_count, received_type, from,
                                      received_tag, true, function, found))
    return error;
  set_up(wanted, received, received_count, received_type, from, received_tag, *found);
  return MPI_SUCCESS;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag,
                       MPI_Comm communicator) {
  std::uint32_t ticket;
  switch (send_fast(data, count, type, to, tag, communicator, ticket)) {
    case fast_send::sent:
      return MPI_SUCCESS;
    case fast_send::full:
      return send_with_ticket(data, count, type, to, tag, communicator, ticket, call::send);
    case fast_send::refused:
      break;
  }
  return send_longer(data, count, type, to, tag, communicator, nullptr);
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
  std::uint32_t ticket;
  switch (send_fast(data, count, type, to, tag, communicator, ticket)) {
    case fast_send::sent:
      *request = sent_request;
      return MPI_SUCCESS;
    case fast_send::full:
      *request = sent_request;
      return send_with_ticket(data, count, type, to, tag, communicator, ticket, call::isend);
    case fast_send::refused:
      break;
  }
  return send_longer(data, count, type, to, tag, communicator, request);
}
QUARRY_HD int MPI_Issend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::synchronous, call::isend,
                       request, "MPI_Issend");
}
QUARRY_HD int MPI_Irsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::standard, call::isend,
                       request, "MPI_Irsend");
}

QUARRY_HD int MPI_Bsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                        MPI_Comm communicator) {
  return send_checked(data, count, type, to, tag, communicator, mode::buffered, call::send,
                      "MPI_Bsend");
}
QUARRY_HD int MPI_Ibsend(void const* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm communicator, MPI_Request* request) {
  return isend_checked(data, count, type, to, tag, communicator, mode::buffered, call::isend,
                       request, "MPI_Ibsend");
}

QUARRY_HD int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag,
                       MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  plain_receive wanted;
  if (is_plain_receive(rank, data, count, type, from, tag, communicator, wanted)) {
    longer_message found;
    switch (receive_soon(rank, wanted, status, found)) {
      case fast_receive::taken:
        return MPI_SUCCESS;
      case fast_receive::is_longer:
        return receive_longer(data, found.size, found.source, found.tag, status);
      default:
        break;
    }
  }
  return recv_later(data, count, type, from, tag, communicator, status, call::recv, "MPI_Recv");
}

QUARRY_HD int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag,
                        MPI_Comm communicator, MPI_Request* request) {
  return irecv_fast(self(), data, count, type, from, tag, communicator, request)
             ? MPI_SUCCESS
             : irecv_checked(data, count, type, from, tag, communicator, request);
}

QUARRY_HD int MPI_Sendrecv(void const* sent, int sent_count, MPI_Datatype sent_type, int to,
                           int sent_tag, void* received, int received_count,
                           MPI_Datatype received_type, int from, int received_tag,
                           MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  plain_receive wanted;
  if (is_plain_receive(rank, received, received_count, received_type, from, received_tag,
                       communicator, wanted)) {
    std::uint32_t ticket;
    switch (send_fast(sent, sent_count, sent_type, to, sent_tag, communicator, ticket)) {
      case fast_send::sent:
        longer_message found;
        switch (receive_soon(rank, wanted, status, found)) {
          case fast_receive::taken:
            return MPI_SUCCESS;
          case fast_receive::is_longer:
            return receive_longer(received, found.size, found.source, found.tag, status);
          default:
            break;
        }
        return recv_later(received, received_count, received_type, from, received_tag, communicator,
                          status, call::sendrecv, "MPI_Sendrecv");
      case fast_send::full:
        return sendrecv_with_ticket(sent, sent_count, sent_type, to, sent_tag, received,
                                    received_count, received_type, from, received_tag, communicator,
                                    status, ticket);
      case fast_send::refused:
        break;
    }
  }
  return sendrecv_checked(sent, sent_count, sent_type, to, sent_tag, received, received_count,
                          received_type, from, received_tag, communicator, status, "MPI_Sendrecv");
}

QUARRY_HD int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag,
                                   int from, int received_tag, MPI_Comm communicator,
                                   MPI_Status* status) {
  char const* const name = "MPI_Sendrecv_replace";
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, count, type, to, sent_tag, false, name, at))
    return error;
  bytes const size = static_cast<bytes>(count) * element_size(rank, type);
  scratch const packed{rank, size};
  pack(rank, packed.data(), data, static_cast<bytes>(count), type);
  return sendrecv_checked(packed.data(), static_cast<std::int64_t>(size), MPI_BYTE, to, sent_tag,
                          data, count, type, from, received_tag, communicator, status, name);
}

QUARRY_HD int MPI_Probe(int from, int tag, MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, 0, MPI_BYTE, from, tag, true, "MPI_Probe", at))
    return error;
  request wanted;
  set_up_probe(wanted, from, tag, *at);
  message const* found = nullptr;
  wait_for_message(
      rank, reason_of(call::probe, from, tag, wanted.context),
      [&] { return has_found(rank, wanted, found); }, &wanted);
  set_probed(status, wanted, found);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Iprobe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, 0, MPI_BYTE, from, tag, true, "MPI_Iprobe", at))
    return error;
  request wanted;
  set_up_probe(wanted, from, tag, *at);
  look_around(rank, &wanted);
  message const* found = nullptr;
  *flag = has_found(rank, wanted, found);
  if (*flag == 0) return end_look(rank, communicator, "MPI_Iprobe");
  set_probed(status, wanted, found);
  return MPI_SUCCESS;
}

}  // extern "C"
