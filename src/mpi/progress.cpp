// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include "requests.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_HD bool matches(request const& wanted, message const& arrived) {
  return wanted.context == arrived.context &&
         (wanted.source == MPI_ANY_SOURCE || wanted.source == arrived.source) &&
         (wanted.tag == MPI_ANY_TAG || wanted.tag == arrived.tag);
}

/// Says that the message's data was received.
QUARRY_HD void finish_message(rank_state& rank, message* taken) {
  if (taken->done != nullptr) {
    simt::atomic_ref<std::uint32_t>{*taken->done}.store(1, return_order);  // (D)
    note_activity();
  }
  taken->holds &= ~mailbox::data_hold;
  free_if_unheld(rank, taken);
}

/// Copies the message's data to the receive's buffer and completes the receive.
QUARRY_SLOW void deliver(rank_state& rank, request& receive, message* arrived) {
  receive.source = arrived->source;
  receive.tag = arrived->tag;
  bytes const room = receive.count * element_size(rank, receive.type);
  receive.size = arrived->size < room ? arrived->size : room;
  if (arrived->size > room) receive.error = MPI_ERR_TRUNCATE;
  unpack(rank, receive.data, receive.type, static_cast<char const*>(arrived->data), receive.size);
  finish_message(rank, arrived);
  receive.is_done = 1;
  if (receive.is_freed != 0) delete_request(rank, &receive);
}

}  // namespace

QUARRY_SLOW void* allocate(bytes size) { return layout().heap().malloc(size); }
QUARRY_SLOW void release(void* memory) {
  layout().heap().free(memory);
  note_activity();  // a rank may wait for memory
}

/// A message with room for `size` bytes; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW message* new_message(rank_state& rank, bytes size) {
  if (size <= small_message && rank.spare != nullptr) {
    message* const reused = rank.spare;
    rank.spare = reused->later;
    --rank.spares;
    return reused;
  }
  bytes const room = size <= small_message ? small_message : size;
  auto* const fresh = static_cast<message*>(allocate(sizeof(message) + room));
  if (fresh != nullptr)
    fresh->capacity = static_cast<std::uint32_t>(room < 0xffffffffu ? room : 0xffffffffu);
  return fresh;
}

/// Moves all messages of the mailbox to the receives that match them, or to the list of unexpected
/// messages. Every wait calls it, so that a rank that waits in one call serves its other receives.
QUARRY_SLOW void progress(rank_state& rank) {
  mailbox const box{rank};
  message* replaced = nullptr;
  QUARRY_NO_UNROLL
  while (box.has_message()) {
    message* const arrived = box.pop(replaced);
    free_if_unheld(rank, replaced);
    request* previous = nullptr;
    request* posted = rank.posted_first;
    while (posted != nullptr && !matches(*posted, *arrived)) {
      previous = posted;
      posted = posted->next;
    }
    if (posted != nullptr) {
      (previous != nullptr ? previous->next : rank.posted_first) = posted->next;
      if (rank.posted_last == posted) rank.posted_last = previous;
      deliver(rank, *posted, arrived);
      continue;
    }
    append_unexpected(rank, arrived);
  }
}

/// The first unexpected message that matches. Removes it from the list if `takes` is true.
[[nodiscard]] QUARRY_SLOW message* find_unexpected(rank_state& rank, request const& wanted,
                                                   bool takes) {
  message* previous = nullptr;
  for (message* found = rank.unexpected_first; found != nullptr; found = found->later) {
    if (matches(wanted, *found)) {
      if (takes) {
        (previous != nullptr ? previous->later : rank.unexpected_first) = found->later;
        if (rank.unexpected_last == found) rank.unexpected_last = previous;
      }
      return found;
    }
    previous = found;
  }
  return nullptr;
}

/// Begins a receive. Afterwards it is done or in the list of posted receives.
QUARRY_SLOW void begin_receive(rank_state& rank, request& receive) {
  progress(rank);
  if (message* const found = find_unexpected(rank, receive, true)) {
    deliver(rank, receive, found);
    return;
  }
  receive.next = nullptr;
  (rank.posted_last != nullptr ? rank.posted_last->next : rank.posted_first) = &receive;
  rank.posted_last = &receive;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
