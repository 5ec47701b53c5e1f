// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include "cancellation.hpp"
#include "fast_path.hpp"
#include "long_messages.hpp"
#include "message_parts.hpp"
#include "outgoing.hpp"
#include "signatures.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The first posted receive that matches; null if there is none.
[[nodiscard]] QUARRY_HD request* find_posted(rank_state& rank, envelope const& arrived) {
  request* posted = rank.posted_first;
  while (posted != nullptr && !matches(*posted, arrived)) posted = posted->next;
  return posted;
}

/// The first posted receive that matches, no longer in the list; null if there is none.
[[nodiscard]] QUARRY_HD request* take_posted(rank_state& rank, envelope const& arrived) {
  request* previous = nullptr;
  request* posted = rank.posted_first;
  while (posted != nullptr && !matches(*posted, arrived)) {
    previous = posted;
    posted = posted->next;
  }
  if (posted == nullptr) return nullptr;
  (previous != nullptr ? previous->next : rank.posted_first) = posted->next;
  if (rank.posted_last == posted) rank.posted_last = previous;
  return posted;
}

[[nodiscard]] QUARRY_HD bytes room_of(rank_state& rank, request const& receive) {
  return receive.count * element_size(rank, receive.type);
}

/// Completes a receive whose buffer has the data.
QUARRY_HD void complete(rank_state& rank, request& receive, envelope const& head, bytes size) {
  receive.source = static_cast<std::int32_t>(head.source);
  receive.tag = static_cast<std::int32_t>(head.tag);
  receive.size = size;
  receive.is_done = 1;
  if (receive.freed != request::handle_kind::none) finish_freed(rank, receive);
}

/// Copies a message's data to the receive's buffer and completes the receive.
QUARRY_SLOW void deliver(rank_state& rank, request& receive, envelope const& head, bytes size,
                         void const* data) {
  bytes const room = room_of(rank, receive);
  receive.size = size < room ? size : room;
  if (size > room) receive.error = MPI_ERR_TRUNCATE;
  {
    long_work const copies{rank, receive.size};
    unpack(rank, receive.data, receive.type, static_cast<char const*>(data), receive.size);
  }
  complete(rank, receive, head, receive.size);
}

QUARRY_HD void deliver(rank_state& rank, request& receive, message* arrived) {
  if (arrived->is_signed()) keep_signature(rank, receive, *arrived);
  deliver(rank, receive, arrived->head, arrived->size, arrived->data);
  finish_message(rank, arrived);
}

/// A copy of the message whose data is in the slot's extension; null if the heap has no memory.
[[nodiscard]] QUARRY_HD message* copy_of_long(rank_state& rank, own_mail_reader const& mails,
                                              own_mail_reader::arrival const& arrived) {
  std::uint32_t const size = arrived.size();
  message* node = rank.long_spare;
  if (node != nullptr && node->capacity >= size) {
    rank.long_spare = node->later;
    --rank.long_spares;
  } else {
    bytes const capacity = message_capacity(size);
    node = static_cast<message*>(allocate(sizeof(message) + capacity));
    if (node == nullptr) return nullptr;
    node->capacity = static_cast<std::uint32_t>(capacity);
  }
  node->belongs_to = message::owner::node;
  node->head = arrived.head;
  node->size = size;
  node->data = node->inline_data();
  read_any_extended(mails, node->inline_data(), size);
  return node;
}

/// Whether `until` is a probe that matches the message, and no receive does. Then the probe is
/// done, unless an unexpected message matches it, which came before.
[[nodiscard]] QUARRY_HD bool finds(rank_state& rank, request& until,
                                   own_mail_reader::arrival const& arrived) {
  if (until.what != request::kind::probe || !matches(until, arrived.head) ||
      find_posted(rank, arrived.head) != nullptr)
    return false;
  if (find_unexpected(rank, until, false) == nullptr)
    complete(rank, until, arrived.head, arrived.size());
  return true;
}

/// A copy of the message in the slot; null if the heap has no memory.
[[nodiscard]] QUARRY_HD message* copy_of(rank_state& rank, own_mail_reader const& mails,
                                         own_mail_reader::arrival const& arrived) {
  if (arrived.is_long()) return copy_of_long(rank, mails, arrived);
  message* node = rank.spare;
  if (node != nullptr) {
    rank.spare = node->later;
    --rank.spares;
  } else {
    node = static_cast<message*>(allocate(sizeof(message) + most_inline));
    if (node == nullptr) return nullptr;
  }
  fill_node<most_inline>(node, mails, arrived);
  return node;
}

}  // namespace

QUARRY_SLOW void finish_message(rank_state& rank, message* received) {
  switch (received->belongs_to) {
    case message::owner::sender:
      simt::atomic_ref<std::uint32_t>{received->is_taken}.store(1, return_order);  // (D)
      return note_activity();
#ifdef QUARRY_MPI_PROCESSES
    case message::owner::process:
      acknowledge(*received);
      return release(received);
#endif
    case message::owner::receiver:
      return release(received);
    case message::owner::node:
      if (received->size > most_inline) {
        if (rank.long_spares == most_long_spares) return release(received);
        received->later = rank.long_spare;
        rank.long_spare = received;
        ++rank.long_spares;
        return;
      }
      if (rank.spares == most_spares) return release(received);
      make_spare(rank, received);
  }
}

#ifdef QUARRY_MPI_PROCESSES
QUARRY_SLOW request* take_direct_receive(rank_state& rank, envelope const& head, bytes size) {
  request* const posted = find_posted(rank, head);
  if (posted == nullptr || !is_dense(rank, posted->type) || size > room_of(rank, *posted))
    return nullptr;
  return take_posted(rank, head);
}
QUARRY_SLOW void complete_direct_receive(rank_state& rank, request& receive, envelope const& head,
                                         bytes size) {
  complete(rank, receive, head, size);
}
QUARRY_SLOW void match_message(rank_state& rank, message* arrived) {
  if (request* const posted = take_posted(rank, arrived->head)) {
    deliver(rank, *posted, arrived);
  } else {
    append_unexpected(rank, arrived);
  }
}
#endif

QUARRY_SLOW bool release_spares(rank_state& rank) {
  bool has_freed = false;
  auto const release_all = [&](message*& first) {
    for (message* next = nullptr; first != nullptr; first = next) {
      next = first->later;
      release(first);
      has_freed = true;
    }
  };
  release_all(rank.spare);
  release_all(rank.long_spare);
  rank.spares = rank.long_spares = 0;
  for (message*& kept : rank.kept) {
    if (kept == nullptr || !is_received(*kept)) continue;
    release(kept);
    kept = nullptr;
    has_freed = true;
  }
  return has_freed;
}

QUARRY_SLOW void* allocate(bytes size) {
  void* const memory = layout().heap().malloc(size);
  return memory != nullptr ? memory : allocate_despite_shortage(size);
}

QUARRY_SLOW void* allocate_despite_shortage(bytes size) {
  (void)simt::atomic_ref<std::uint32_t>{the_world().shortages}.fetch_add(1, simt::relaxed);
  void* memory = release_spares(self()) ? layout().heap().malloc(size) : nullptr;
  if (!spans_gpus()) return memory;
  for (std::uint32_t i = 0; memory == nullptr && i < the_world().gpus; ++i)
    memory = layout().heaps[i].malloc(size);
  return memory;
}

QUARRY_SLOW void help_in_shortage(rank_state& rank, std::uint32_t shortages) {
  rank.shortages_seen = shortages;
  (void)release_spares(rank);
}
QUARRY_SLOW void release(void* memory) {
  heap_of(memory).free(memory);
  note_activity();  // a rank may wait for memory
}

QUARRY_SLOW void progress(rank_state& rank, request* until, std::uint32_t most) {
  own_mail_reader mails = reader_of(rank);
  own_mail_reader::arrival arrived;
  QUARRY_NO_UNROLL
  while ((until == nullptr || until->is_done == 0) && most-- != 0 && mails.look(arrived)) {
    envelope const& head = arrived.head;
    if ((head.about & envelope::is_ordered) != 0) {
      mails.acquire();
      if (head.context() == cancel_context) {
        message* const sent = message_elsewhere(arrived);
        take_message(mails);
        take_back(rank, sent);
        continue;
      }
    }
#ifdef QUARRY_MPI_PROCESSES
    if (is_part(head)) {
      if (take_part(rank, mails, arrived)) continue;
      ++rank.looks_without_memory;
      return;
    }
#endif
    if ((head.about & envelope::is_elsewhere) != 0) {
      message* const found = message_elsewhere(arrived);
      take_message(mails);
      if (request* const posted = take_posted(rank, head)) {
        deliver(rank, *posted, found);
      } else {
        append_unexpected(rank, found);
      }
      continue;
    }
    if (receive_posted<most_inline>(rank, mails, arrived) == fast_receive::taken) continue;
    if (arrived.is_long()) {
      request* const posted = find_posted(rank, head);
      if (posted != nullptr && is_plain(posted->type) && arrived.size() <= room_of(rank, *posted)) {
        read_any_extended(mails, static_cast<char*>(posted->data), arrived.size());
        take_message(mails);
        complete(rank, *take_posted(rank, head), head, arrived.size());
        continue;
      }
    } else if (request* const posted = take_posted(rank, head)) {
      alignas(8) char data[most_inline];
      copy_words(data, mails, arrived);
      take_message(mails);
      deliver(rank, *posted, head, head.size(), data);
      continue;
    }
    if (until != nullptr && finds(rank, *until, arrived)) break;
    message* const copy = copy_of(rank, mails, arrived);
    if (copy == nullptr) {
      ++rank.looks_without_memory;
      return;
    }
    take_message(mails);
    if (request* const posted = take_posted(rank, head)) {
      deliver(rank, *posted, copy);
    } else {
      append_unexpected(rank, copy);
    }
  }
  rank.looks_without_memory = 0;
}

QUARRY_SLOW void look_around(rank_state& rank, request* until) {
  progress(rank, rank.schedules == nullptr ? until : nullptr);
  if (rank.schedules != nullptr) (void)advance_schedules(rank);
}

QUARRY_SLOW int end_look(rank_state& rank, MPI_Comm communicator, char const* function) {
  constexpr std::uint32_t most_looks = 10'000;  // other ranks may free memory soon
  yield_rank();
  if (rank.looks_without_memory < most_looks) return MPI_SUCCESS;
  rank.looks_without_memory = 0;
  own_mail_reader::arrival hidden{};
  (void)reader_of(rank).look(hidden);
  return fail(rank, communicator, MPI_ERR_NO_MEM, function, "for a message of rank",
              hidden.head.source);
}

/// The first unexpected message that matches. Removes it from the list if `takes` is true.
[[nodiscard]] QUARRY_SLOW message* find_unexpected(rank_state& rank, request const& wanted,
                                                   bool takes) {
  message* previous = nullptr;
  for (message* found = rank.unexpected_first; found != nullptr; found = found->later) {
    if (matches(wanted, found->head)) {
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

QUARRY_SLOW void receive_message(rank_state& rank, request& receive, message* matched) {
  deliver(rank, receive, matched);
}

/// Begins a receive. Afterwards it is done or in the list of posted receives.
QUARRY_SLOW void begin_receive(rank_state& rank, request& receive) {
  if (message* const found = find_unexpected(rank, receive, true)) {
    deliver(rank, receive, found);
    return;
  }
  receive.next = nullptr;
  append_posted(rank, receive);
  // A message that matches and has arrived goes to the receive's buffer, and not through the heap.
  progress(rank, &receive);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
