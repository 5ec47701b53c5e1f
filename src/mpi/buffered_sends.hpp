// SPDX-License-Identifier: Apache-2.0
// MPI_Bsend and the buffer that the program attaches for it.
//
// The runtime copies messages to its own memory; the buffer only says how much may be on its way.
// A message of at most `most_eager` bytes leaves the buffer at once, as every send of this size
// does. A longer one is in the buffer until its receiver has it. The buffer holds nothing else:
// MPI_BSEND_OVERHEAD is 0.
#pragma once

#include "outgoing.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A message in the buffer. Its data follows.
struct buffered_send {
  buffered_send* next;
  message sent;
};

/// Whether the attached buffer has room for the message.
[[nodiscard]] QUARRY_SLOW bool fits_buffer(rank_state& rank, bytes count, MPI_Datatype type);

/// A message of more than `most_eager` bytes in the buffer; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW message* new_buffered(rank_state& rank, bytes size);

}  // namespace quarry::inline QUARRY_ABI::mpi
