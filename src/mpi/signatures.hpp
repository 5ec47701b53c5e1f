// SPDX-License-Identifier: Apache-2.0
// Messages of checked programs that say of which types their elements are.
#pragma once

#include "checks.hpp"
#include "point_to_point.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The basic elements of a buffer. Types that are the same to C are the same here, as MPI_INT and
/// MPI_INT32_T. A pair of numbers is two elements.
struct type_signature {
  std::uint64_t hash = 0;
  bytes elements = 0;
  MPI_Datatype only =
      MPI_DATATYPE_NULL;  // the type of all elements, one of those that are the same
  bool is_known = false;  // there is memory to find it, and no element is MPI_PACKED
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

/// As `start_send` for a mode that is `checked`: sends the signature, too.
[[nodiscard]] QUARRY_SLOW message* start_signed_send(rank_state& rank, channel const& through,
                                                     void const* data, bytes count,
                                                     MPI_Datatype type, std::int32_t to,
                                                     std::int32_t tag, mode how, call which,
                                                     message& own);

/// After `is_received`: frees a message that its sender has waited for.
QUARRY_SLOW void finish_signed_send(message& own);

/// Keeps the signature of a message that the receive gets, for `compare_signatures`.
QUARRY_SLOW void keep_signature(rank_state& rank, request const& receive, message& arrived);

/// Compares the signatures of messages with those of their receives, and reports differences.
QUARRY_SLOW void compare_signatures(rank_state& rank);

}  // namespace quarry::inline QUARRY_ABI::mpi
