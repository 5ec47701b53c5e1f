// SPDX-License-Identifier: Apache-2.0
#include "message_parts.hpp"

#include "fast_path.hpp"
#include "long_messages.hpp"

#ifdef QUARRY_MPI_PROCESSES
namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The words that other processes put when they have received this rank's synchronous sends.
[[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint64_t> word_of(std::uint32_t acknowledgement) {
  std::uint32_t const rank = (acknowledgement - 1) / acknowledgement_words;
  std::uint32_t const index = (acknowledgement - 1) % acknowledgement_words;
  return simt::atomic_ref<std::uint64_t>{
      the_processes()
          .acknowledged[std::uint64_t{index_in_process(rank)} * acknowledgement_words + index]};
}

/// Takes a word. Waits until one is free.
[[nodiscard]] QUARRY_SLOW std::uint32_t new_acknowledgement(rank_state& rank,
                                                            wait_reason const& reason) {
  static_assert(acknowledgement_words == 64);  // bits of `acknowledged_in_use`
  std::uint32_t index = 0;
  wait_for_others(rank, reason, [&] {
    for (std::uint32_t i = 0; i < acknowledgement_words; ++i) {
      if ((rank.acknowledged_in_use >> i & 1) != 0) continue;
      index = i;
      return true;
    }
    return false;
  });
  rank.acknowledged_in_use |= std::uint64_t{1} << index;
  std::uint32_t const made = rank.rank * acknowledgement_words + index + 1;
  word_of(made).store(0, simt::relaxed);  // no process writes it before it gets the first part
  return made;
}

/// Puts one part into the receiver's mailbox.
QUARRY_SLOW void put_part(rank_state& rank, std::uint32_t target, envelope head,
                          part_note const& note, char const* data, std::uint32_t size,
                          wait_reason const& reason) {
  sender_slot slot{mailbox_of(target), way_to(target)};
  if (!slot.is_free()) wait_for_slot(rank, slot, reason);
  std::uint32_t const words[] = {size, note.number, note.acknowledgement,
                                 static_cast<std::uint32_t>(note.size),
                                 static_cast<std::uint32_t>(note.size >> 32)};
  head.about |= envelope::is_elsewhere | envelope::is_long;
  slot.write_units(head, 5, [&](std::uint32_t i) { return words[i]; });
  std::uint64_t* const units = extensions_of(target).of(slot.ticket() % mail_slots);
  put_numbered(slot.way(), numbered_units{units, slot.number()}, data, size);
}

[[nodiscard]] QUARRY_SLOW incoming_message* find_incoming(rank_state& rank, envelope const& head,
                                                          std::uint32_t number) {
  incoming_message* found = rank.incoming;
  while (found != nullptr && (found->number != number || found->whole->head.source != head.source ||
                              found->whole->head.context() != head.context()))
    found = found->next;
  return found;
}

/// A message whose first part has arrived; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW incoming_message* new_incoming(rank_state& rank, envelope const& head,
                                                         part_note const& note) {
  auto* const made = static_cast<incoming_message*>(allocate(sizeof(incoming_message)));
  if (made == nullptr) return nullptr;
  auto* const whole = static_cast<message*>(allocate(sizeof(message) + note.size));
  if (whole == nullptr) {
    release(made);
    return nullptr;
  }
  whole->belongs_to = message::owner::process;
  whole->head = {head.tag, head.source, head.context() << 8};
  whole->size = note.size;
  whole->data = whole->inline_data();
  whole->is_taken = note.acknowledgement;
  whole->capacity = 0;
  *made = {rank.incoming, 0, note.number, whole};
  return rank.incoming = made;
}

QUARRY_SLOW void remove(rank_state& rank, incoming_message* done) {
  incoming_message** link = &rank.incoming;
  while (*link != done) link = &(*link)->next;
  *link = done->next;
  release(done);
}

}  // namespace

QUARRY_SLOW message* send_in_parts(rank_state& rank, std::uint32_t target, envelope const& head,
                                   void const* data, bytes count, MPI_Datatype type,
                                   bool is_synchronous, wait_reason const& reason, message& own) {
  bytes const size = count * element_size(rank, type);
  char* packed = nullptr;
  if (!is_dense(rank, type)) {
    packed = wait_for_memory(rank, reason, [&] { return static_cast<char*>(allocate(size + 1)); });
    pack(rank, packed, data, count, type);
  }
  auto const* const from = packed != nullptr ? packed : static_cast<char const*>(data);
  std::uint32_t const acknowledgement = is_synchronous ? new_acknowledgement(rank, reason) : 0;
  part_note const note{rank.sent_in_parts++, acknowledgement, size};
  bytes done = 0;
  do {
    bytes const left = size - done;
    auto const part = left < extended_bytes() ? static_cast<std::uint32_t>(left) : extended_bytes();
    put_part(rank, target, head, note, from + done, part, reason);
    done += part;
  } while (done < size);
  if (packed != nullptr) release(packed);
  if (!is_synchronous) return nullptr;
  own.belongs_to = message::owner::process;
  own.head = head;
  own.data = nullptr;
  own.size = acknowledgement;
  own.is_taken = 0;
  own.later = nullptr;
  own.capacity = 0;
  return &own;
}

QUARRY_SLOW bool take_part(rank_state& rank, own_mail_reader& mails,
                           own_mail_reader::arrival const& arrived, message*& whole) {
  whole = nullptr;
  alignas(8) part_note note;
  load_numbered(numbered_units{mails.later_units(), mails.number()}, reinterpret_cast<char*>(&note),
                sizeof(note), whole_share);
  incoming_message* found = find_incoming(rank, arrived.head, note.number);
  if (found == nullptr) found = new_incoming(rank, arrived.head, note);
  if (found == nullptr) return false;
  read_any_extended(mails, found->whole->inline_data() + found->received, arrived.size());
  found->received += arrived.size();
  take_message(mails);
  if (found->received < note.size) return true;
  whole = found->whole;
  remove(rank, found);
  return true;
}

QUARRY_SLOW bool is_acknowledged(message& sent) {
  if (sent.is_taken != 0) return true;
  auto const acknowledgement = static_cast<std::uint32_t>(sent.size);
  // Relaxed: the sender reads nothing that the receiver wrote, only that it has received.
  if (word_of(acknowledgement).load(simt::relaxed) == 0) return false;
  self().acknowledged_in_use &=
      ~(std::uint64_t{1} << (acknowledgement - 1) % acknowledgement_words);
  sent.is_taken = 1;
  return true;
}

QUARRY_SLOW void acknowledge(message const& received) {
  if (received.is_taken == 0) return;
  std::uint32_t const sender = (received.is_taken - 1) / acknowledgement_words;
  quarry_mpi_put(
      &the_processes()
           .acknowledged[std::uint64_t{index_in_process(sender)} * acknowledgement_words +
                         (received.is_taken - 1) % acknowledgement_words],
      1, process_of(sender));
}

QUARRY_SLOW int fail_across_processes(rank_state& rank, MPI_Comm communicator,
                                      char const* function) {
  return fail(rank, communicator, MPI_ERR_UNSUPPORTED_OPERATION, function,
              "not available to ranks of several processes; processes", the_processes().count);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
