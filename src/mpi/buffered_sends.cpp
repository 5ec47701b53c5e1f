// SPDX-License-Identifier: Apache-2.0
#include "buffered_sends.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Frees messages that their receivers have, and returns the bytes of the others.
[[nodiscard]] QUARRY_SLOW bytes bytes_in_buffer(rank_state& rank) {
  bytes total = 0;
  buffered_send** link = &rank.buffered;
  while (*link != nullptr) {
    buffered_send* const at = *link;
    if (is_received(at->sent)) {
      *link = at->next;
      release(at);
    } else {
      total += at->sent.size;
      link = &at->next;
    }
  }
  return total;
}

}  // namespace

QUARRY_SLOW bool fits_buffer(rank_state& rank, bytes count, MPI_Datatype type) {
  if (rank.attached_buffer == nullptr) return false;
  auto const room = static_cast<bytes>(rank.attached_bytes);
  bytes const size = count * element_size(rank, type);
  return size <= room && bytes_in_buffer(rank) <= room - size;
}

QUARRY_SLOW message* new_buffered(rank_state& rank, bytes size) {
  void* const memory = allocate(sizeof(buffered_send) + size);
  if (memory == nullptr) return nullptr;
  auto* const made = ::new (memory) buffered_send{rank.buffered, {}};
  rank.buffered = made;
  made->sent.data = made + 1;
  made->sent.size = size;
  made->sent.belongs_to = message::owner::sender;
  return &made->sent;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

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
  wait_until(rank, reason_of(call::buffer_detach), [&] { return bytes_in_buffer(rank) == 0; });
  *static_cast<void**>(buffer_address) = rank.attached_buffer;
  *size = rank.attached_buffer != nullptr ? rank.attached_bytes : 0;
  rank.attached_buffer = nullptr;
  return MPI_SUCCESS;
}

}  // extern "C"
