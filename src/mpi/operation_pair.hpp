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
  void* copy;  // what the pair sends, if it is not the program's buffer; else null

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

/// Begins the operations.
QUARRY_SLOW void start_pair(rank_state& rank, request& pair, call which);

}  // namespace quarry::inline QUARRY_ABI::mpi
