// SPDX-License-Identifier: Apache-2.0
// MPI_Cancel, and looking at requests without completing them.
//
// A receive that no message has matched is cancelled at once. A send that waits for its receiver
// asks the receiver to forget the message, in a message of its own, which arrives later. The answer
// is in the first message: `message::taken_back`, or that it was received. The receiver answers
// when it takes that message from its mailbox. Other sends are complete when they have begun, and
// are not cancelled.
//
// Rejected: the sender takes the message back itself. Then each receiver of a long message would
// have to claim it first, with an atomic operation.
#include "cancellation.hpp"

#include "message_parts.hpp"
#include "operation_pair.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Removes the receive from the list of posted receives and completes it, if it is there.
QUARRY_SLOW void cancel_receive(rank_state& rank, request& receive) {
  request* previous = nullptr;
  request* posted = rank.posted_first;
  while (posted != nullptr && posted != &receive) {
    previous = posted;
    posted = posted->next;
  }
  if (posted == nullptr) return;
  (previous != nullptr ? previous->next : rank.posted_first) = receive.next;
  if (rank.posted_last == &receive) rank.posted_last = previous;
  receive.what = request::kind::cancelled;
  receive.source = MPI_ANY_SOURCE;
  receive.tag = MPI_ANY_TAG;
  receive.size = 0;
  receive.is_done = request::done_by_cancel;
}

/// Asks the receiver to forget what was sent, if the send waits for the receiver.
QUARRY_SLOW void cancel_send(rank_state& rank, message* sent, std::uint32_t receiver) {
  if (sent == nullptr || is_received(*sent)) return;
  wait_reason const reason = reason_of(call::cancel);
  sender_slot slot{mailbox_of(receiver), way_to(receiver)};
  if (!slot.is_free()) wait_for_slot(rank, slot, reason);
  auto const address = reinterpret_cast<std::uint64_t>(sent);
  slot.write_ordered(
      {0, rank.rank, cancel_context << 8 | envelope::is_ordered | 8}, 2,
      [&](std::uint32_t i) { return static_cast<std::uint32_t>(address >> 32 * i); });
  note_mail(slot);
}

#ifdef QUARRY_MPI_PROCESSES
/// Whether the request is a send to another process that waits for its receiver.
[[nodiscard]] QUARRY_SLOW bool sent_elsewhere(request& asked) {
  message* sent = nullptr;
  if (asked.what == request::kind::send) sent = asked.sent;
  if (asked.what == request::kind::pair && asked.is_persistent != 0)
    sent = operation_pair::of(asked).send.sent;
  return sent != nullptr && sent->belongs_to == message::owner::process && !is_received(*sent);
}
#endif

}  // namespace

QUARRY_SLOW void take_back(rank_state& rank, message* sent) {
  message* previous = nullptr;
  message* found = rank.unexpected_first;
  while (found != nullptr && found != sent) {
    previous = found;
    found = found->later;
  }
  if (found == nullptr) return;  // received, or to be received by MPI_Mrecv
  (previous != nullptr ? previous->later : rank.unexpected_first) = found->later;
  if (rank.unexpected_last == found) rank.unexpected_last = previous;
  simt::atomic_ref<std::uint32_t>{found->is_taken}.store(message::taken_back, return_order);  // (D)
  note_activity();
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Cancel(MPI_Request* handle) {
  rank_state& rank = self();
  request* const asked = pending_request(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Cancel", "request", *handle);
  progress(rank);  // a message that has arrived matches first
#ifdef QUARRY_MPI_PROCESSES
  if (sent_elsewhere(*asked)) return fail_across_processes(rank, MPI_COMM_WORLD, "MPI_Cancel");
#endif
  if (asked->what == request::kind::receive) {
    cancel_receive(rank, *asked);
  } else if (asked->what == request::kind::send) {
    cancel_send(rank, asked->sent, static_cast<std::uint32_t>(asked->count));
  } else if (asked->what == request::kind::pair && asked->is_persistent != 0) {
    operation_pair& begun = operation_pair::of(*asked);
    cancel_receive(rank, begun.receive);
    cancel_send(rank, begun.send.sent, static_cast<std::uint32_t>(begun.sent.peer));
  } else if (asked->what == request::kind::generalized) {
    if (int const error = cancel_generalized(*asked))
      return fail(rank, MPI_COMM_WORLD, error, "MPI_Cancel", "request", *handle);
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Test_cancelled(MPI_Status const* status, int* flag) {
  *flag = status->is_cancelled != 0;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Status_set_cancelled(MPI_Status* status, int flag) {
  status->is_cancelled = flag != 0;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Request_get_status(MPI_Request handle, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  if (handle != MPI_REQUEST_NULL && request_of(rank, handle) == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Request_get_status", "request", handle);
  *flag = 1;
  request* const asked = pending_request(rank, handle);
  if (asked == nullptr) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  look_around(rank);
  if (is_complete(rank, *asked)) {
    set_status(status, *asked);
    return MPI_SUCCESS;
  }
  *flag = 0;
  return end_look(rank, MPI_COMM_WORLD, "MPI_Request_get_status");
}

}  // extern "C"
