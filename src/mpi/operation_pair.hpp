// SPDX-License-Identifier: Apache-2.0
// Requests that stand for a receive and a send, or for one of both that is persistent.
#pragma once

#include "message_calls.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The operations of a request of kind `pair`. MPI_Isendrecv has both, a persistent request has one
/// of them.
///
/// It needs nothing of the communicator after it is made: sends have ranks of the world as their
/// targets. The types are kept, too. So the program may free both.
struct operation_pair {
  /// The arguments of one of the operations.
  struct arguments {
    void* data;
    std::int64_t count;
    MPI_Datatype type;
    std::int32_t peer;
    std::int32_t tag;
    std::uint32_t exists;
  };

  arguments sent;
  arguments received;
  mode how;
  request receive;  // those that have begun
  request send;
  message outgoing;  // of `send`; it lies behind it
  membership at;     // for `send`
  communicator peers;
  void* copy;                // what the pair sends, if it is not the program's buffer; else null
  std::uint32_t send_waits;  // as rank_state::send_waits, of the last start

  [[nodiscard]] QUARRY_HD static operation_pair& of(request const& owner) {
    return *static_cast<operation_pair*>(owner.data);
  }
};

/// A new request for operations whose arguments are checked. It has not begun, and is not
/// persistent.
[[nodiscard]] QUARRY_SLOW request* new_pair(rank_state& rank, MPI_Comm handle, membership& at,
                                            operation_pair::arguments const& sent,
                                            operation_pair::arguments const& received, mode how,
                                            MPI_Request* result);

/// The same for the arguments of MPI_Isendrecv and of MPI_Isendrecv_replace, which are checked.
/// Returns an MPI error code, which was reported.
QUARRY_SLOW int new_exchange(operation_pair::arguments const& sent,
                             operation_pair::arguments const& received, MPI_Comm handle,
                             char const* function, MPI_Request* result, request*& made);
QUARRY_SLOW int new_replacement(void* data, int count, MPI_Datatype type, int to, int sent_tag,
                                int from, int received_tag, MPI_Comm handle, char const* function,
                                MPI_Request* result, request*& made);

/// Begins the operations. `send(pair, own)` sends as `start_send` with memory for the message.
template <class Send>
QUARRY_HD void start_pair_by(rank_state& rank, request& pair, Send const& send) {
  operation_pair& begun = operation_pair::of(pair);
  pair.is_done = 0;
  pair.error = MPI_SUCCESS;
  pair.size = 0;
  pair.source = MPI_ANY_SOURCE;  // an empty status
  pair.tag = MPI_ANY_TAG;
  if (begun.received.exists != 0) {
    operation_pair::arguments const& wanted = begun.received;
    begun.receive = {};
    set_up(begun.receive, wanted.data, static_cast<int>(wanted.count), wanted.type, wanted.peer,
           wanted.tag, begun.at);
    begun.receive.handle = pair.handle;
    pair.source = wanted.peer;  // what the rank waits for
    pair.tag = wanted.tag;
    if (begun.receive.is_done == 0) begin_receive(rank, begun.receive);
  }
  if (begun.sent.exists != 0) {
    begun.send = {};
    begun.send.what = request::kind::send;
    if (begun.sent.peer != MPI_PROC_NULL) begun.send.sent = send(begun, message_of(begun.send));
    begun.send.is_done = begun.send.sent == nullptr;
    rank.send_waits = begun.send_waits = begun.send.sent != nullptr ? 1 : 0;
  }
}

/// Begins the operations.
QUARRY_SLOW void start_pair(rank_state& rank, request& pair, call which);

}  // namespace quarry::inline QUARRY_ABI::mpi
