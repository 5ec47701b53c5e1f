// SPDX-License-Identifier: Apache-2.0
// Messages of checked programs that say of which types their elements are.
#pragma once

#include "checks.hpp"
#include "point_to_point.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The basic elements of a buffer. Types that are the same type in C count as one, as MPI_INT and
/// MPI_INT32_T. A pair of numbers is two elements.
struct type_signature {
  std::uint64_t hash = 0;
  bytes elements = 0;
  MPI_Datatype only = MPI_DATATYPE_NULL;  // the type of all elements; null: there are several
  bool is_known = false;  // false: the heap had no memory, or there is an MPI_PACKED
};

/// The signature of the first `most` basic elements of a buffer.
[[nodiscard]] QUARRY_SLOW type_signature signature_of(rank_state& rank, bytes count,
                                                      MPI_Datatype type, bytes most = ~bytes{0});

/// What a message says of its elements, and how it was received. Its sender makes it; the receiver
/// of the message frees it.
struct signature_note {
  signature_note* next;  // of those that the rank has received and not compared
  type_signature sent;
  std::uint32_t place;   // of the send
  std::uint32_t source;  // the sender, in the world
  // when it is received
  MPI_Datatype type;
  bytes count;         // of elements of `type` that hold the message
  MPI_Request handle;  // of the receive; MPI_REQUEST_NULL if that blocks
};

/// MPI_Send and its kind for messages with signatures. A buffered one fits the buffer. Only checked
/// programs call them, and nothing that other programs call does: their stacks stay as they are.
QUARRY_SLOW int send_signed(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm communicator, mode how, call which, char const* function);
QUARRY_SLOW int isend_signed(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm communicator, mode how, MPI_Request* request,
                             char const* function);
/// `signature` is that of the program's buffer, of which `sent` may be a copy.
QUARRY_SLOW int sendrecv_signed(void const* sent, std::int64_t sent_count, MPI_Datatype sent_type,
                                int to, int sent_tag, void* received, int received_count,
                                MPI_Datatype received_type, int from, int received_tag,
                                MPI_Comm communicator, MPI_Status* status, char const* function,
                                type_signature const& signature);

/// As `start_pair`: the message that the pair sends has the signature.
QUARRY_SLOW void start_signed_pair(rank_state& rank, request& pair, call which,
                                   type_signature const& signature);

/// After `is_received`: frees a message that its sender has waited for.
QUARRY_SLOW void finish_signed_send(message& own);

/// Keeps the signature of a message that the receive gets, for `compare_signatures`.
QUARRY_SLOW void keep_signature(rank_state& rank, request const& receive, message& arrived);

/// Gives a note back, for reuse by this rank's sends.
QUARRY_SLOW void release_note(rank_state& rank, signature_note* note);

/// Compares the signatures of messages with those of their receives, and reports differences.
QUARRY_SLOW void compare_signatures(rank_state& rank);

}  // namespace quarry::inline QUARRY_ABI::mpi
