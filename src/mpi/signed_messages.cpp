// SPDX-License-Identifier: Apache-2.0
// Messages with signatures. They never lie in a slot: the slot has their address, and they have
// that of their note. Senders wait where they would wait without signatures.
#include "buffered_sends.hpp"
#include "operation_pair.hpp"
#include "signatures.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Where a signed message has the address of its note: behind its header and the data, if it is a
/// copy.
[[nodiscard]] QUARRY_HD bytes note_offset(bytes copied) { return (copied + 7) / 8 * 8; }
[[nodiscard]] QUARRY_HD signature_note*& note_of(message& of) {
  bytes const copied = of.data == of.inline_data() ? of.size : 0;
  return *reinterpret_cast<signature_note**>(of.inline_data() + note_offset(copied));
}

/// A rank keeps this many notes for reuse: the heap takes longer than the rest of a send.
constexpr std::uint32_t most_spare_notes = 16;

[[nodiscard]] QUARRY_SLOW void* allocate_note(rank_state& rank) {
  checks* const own = checks_of(rank);
  if (own == nullptr || own->spare_notes == nullptr) return allocate(sizeof(signature_note));
  signature_note* const spare = own->spare_notes;
  own->spare_notes = spare->next;
  --own->spares;
  return spare;
}
/// As `start_send`, for a message with the signature of the program's buffer.
[[nodiscard]] QUARRY_SLOW message* start_signed_send(rank_state& rank, channel const& through,
                                                     void const* data, bytes count,
                                                     MPI_Datatype type, std::int32_t to,
                                                     std::int32_t tag, mode how, call which,
                                                     type_signature const& signature,
                                                     message& own) {
  if (!signature.is_known)
    return start_send(rank, through, data, count, type, to, tag, how, which, own);
  bytes const size = count * element_size(rank, type);
  bool const is_copied = size <= most_eager || how == mode::buffered || !is_shared_memory(data) ||
                         !is_dense(rank, type);  // as `start_send`
  bool const waits = how == mode::synchronous || !is_copied;
  bool const is_in_buffer = how == mode::buffered && size > most_eager;
  wait_reason const reason = reason_of(which, to, tag, through.context);
  bytes const copied = is_copied ? size : 0;
  bytes const room = note_offset(copied) + sizeof(signature_note*);
  message* const sent = wait_for_memory(rank, reason, [&] {
    return waits          ? static_cast<message*>(allocate(sizeof(message) + room))
           : is_in_buffer ? new_buffered(rank, room)
                          : new_outgoing(rank, room);
  });
  if (waits) {
    ::new (sent) message{};
    sent->belongs_to = message::owner::sender;
  }
  void* const memory = wait_for_memory(rank, reason, [&] { return allocate_note(rank); });
  sent->data = is_copied ? sent->inline_data() : data;
  sent->size = size;
  sent->head = {static_cast<std::uint32_t>(tag), through.at->rank,
                through.context << 8 | envelope::is_signed};
  note_of(*sent) = ::new (memory) signature_note{
      nullptr, signature, own_record().place, rank.rank, MPI_DATATYPE_NULL, 0, MPI_REQUEST_NULL};
  if (is_copied) pack(rank, sent->inline_data(), data, count, type);
  post(rank, through.at->shared->world_rank(static_cast<std::uint32_t>(to), rank.rank), *sent,
       reason);
  return waits ? sent : nullptr;
}

/// As `send`.
QUARRY_SLOW void send_and_wait(rank_state& rank, membership& at, void const* data, bytes count,
                               MPI_Datatype type, int to, int tag, mode how, call which,
                               type_signature const& signature) {
  message* const sent = start_signed_send(rank, {&at, at.context}, data, count, type, to, tag, how,
                                          which, signature, rank.sent);
  rank.send_waits = sent != nullptr ? 1 : 0;
  if (sent == nullptr) return;
  wait_until(rank, reason_of(which, to, tag, at.context), [&] { return is_received(*sent); });
  finish_send(*sent);
}

}  // namespace

QUARRY_SLOW int send_signed(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm communicator, mode how, call which, char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, count, type, to, tag, false, function, at))
    return error;
  if (to != MPI_PROC_NULL)
    send_and_wait(rank, *at, data, static_cast<bytes>(count), type, to, tag, how, which,
                  signature_of(rank, static_cast<bytes>(count), type));
  return MPI_SUCCESS;
}

QUARRY_SLOW int isend_signed(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm communicator, mode how, MPI_Request* request,
                             char const* function) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error =
          check_message(rank, communicator, count, type, to, tag, false, function, at))
    return error;
  begin_isend(rank, *at, to, communicator, request, [&](message& own) {
    return start_signed_send(rank, {at, at->context}, data, static_cast<bytes>(count), type, to,
                             tag, how, call::isend,
                             signature_of(rank, static_cast<bytes>(count), type), own);
  });
  return MPI_SUCCESS;
}

QUARRY_SLOW int sendrecv_signed(void const* sent, std::int64_t sent_count, MPI_Datatype sent_type,
                                int to, int sent_tag, void* received, int received_count,
                                MPI_Datatype received_type, int from, int received_tag,
                                MPI_Comm communicator, MPI_Status* status, char const* function,
                                type_signature const& signature) {
  rank_state& rank = self();
  membership* at = nullptr;
  request wanted;
  if (int const error =
          prepare_exchange(rank, communicator, sent_count, sent_type, to, sent_tag, received,
                           received_count, received_type, from, received_tag, function, at, wanted))
    return error;
  if (wanted.is_done == 0) begin_receive(rank, wanted);
  if (to != MPI_PROC_NULL)
    send_and_wait(rank, *at, sent, static_cast<bytes>(sent_count), sent_type, to, sent_tag,
                  mode::standard, call::sendrecv, signature);
  wait_for_receive(rank, reason_of(call::sendrecv, wanted.source, wanted.tag, wanted.context),
                   wanted);
  return finish_receive(rank, communicator, wanted, status, function);
}

QUARRY_SLOW void start_signed_pair(rank_state& rank, request& pair, call which,
                                   type_signature const& signature) {
  start_pair_by(rank, pair, [&](operation_pair& begun, message& own) {
    operation_pair::arguments const& made = begun.sent;
    return start_signed_send(rank, {&begun.at, begun.at.context}, made.data,
                             static_cast<bytes>(made.count), made.type, made.peer, made.tag,
                             begun.how, which, signature, own);
  });
}

QUARRY_SLOW void release_note(rank_state& rank, signature_note* note) {
  checks* const own = rank.checked;
  if (own == nullptr || own == &no_checks || own->spares == most_spare_notes) return release(note);
  note->next = own->spare_notes;
  own->spare_notes = note;
  ++own->spares;
}

QUARRY_SLOW void finish_signed_send(message& own) {
  if (own.is_taken == message::taken_back) release(note_of(own));
  release(&own);
}

QUARRY_SLOW void keep_signature(rank_state& rank, request const& receive, message& arrived) {
  signature_note* const note = note_of(arrived);
  bytes const element = element_size(rank, receive.type);
  bool const fits = element != 0 && arrived.size <= receive.count * element;
  checks* const own = rank.checked;
  if (own == nullptr || own == &no_checks || !fits) return release_note(rank, note);
  retain_type(rank, receive.type);
  note->type = receive.type;
  note->count = (arrived.size + element - 1) / element;
  note->handle = receive.handle;
  note->next = own->received;
  own->received = note;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
