// SPDX-License-Identifier: Apache-2.0
#include "message_parts.hpp"

#include "copy_bytes.hpp"
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

/// Block `index` of a rank. Of a rank of another process: its place in this process's memory.
[[nodiscard]] QUARRY_HD char* block_of(std::uint32_t rank, std::uint32_t index) {
  return the_processes().blocks +
         (bytes{index_in_process(rank)} * blocks_of_rank + index) * the_processes().block_bytes;
}
[[nodiscard]] QUARRY_HD std::uint32_t most_in_part() {
  std::uint32_t const block = the_processes().block_bytes;
  return block > extended_bytes() ? block : extended_bytes();
}
/// Whether a part lies in a block. Others lie in extensions.
[[nodiscard]] QUARRY_HD bool is_in_block(std::uint32_t size) { return size > extended_bytes(); }

/// Writes a part to the slot's extension.
QUARRY_SLOW void write_units_of(sender_slot const& slot, std::uint32_t target, char const* data,
                                std::uint32_t size) {
  numbered_units const into{slot.way().reach(extensions_of(target).of(slot.ticket() % mail_slots)),
                            slot.number()};
  if (!slot.way().is_mapped()) return put_numbered(slot.way(), into, data, size);
#ifdef __CUDA_ARCH__
  if (is_for_helpers(size))
    return run_by_warp(
        {warp_task::kind::store, size, into.first(), const_cast<char*>(data), slot.number()});
#endif
  store_numbered(into, data, size, whole_share);
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
  auto const word_at = [&](std::uint32_t i) { return words[i]; };
  head.about |= envelope::is_elsewhere | envelope::is_long;
  std::uint32_t const place = slot.ticket() % mail_slots;
  if (!is_in_block(size)) {
    slot.write_units(head, 5, word_at);
    write_units_of(slot, target, data, size);
  } else if (slot.way().is_mapped()) {
    simt::fence_after_loads();  // (F)
    copy_bytes(slot.way().reach(block_of(target, place)), data, size);
    slot.write_ordered(head, 5, word_at);
  } else {
    simt::fence_after_loads();  // (F)
#ifdef __CUDA_ARCH__
    char* const own = block_of(rank.rank, mail_slots);
    copy_bytes(own, data, size);
    simt::fence_before_stores();  // other lanes may have copied
    data = own;
#endif
    slot.write_with_block(head, 5, word_at, block_of(target, place), data, size);
  }
  note_mail(slot);
}

[[nodiscard]] QUARRY_SLOW incoming_message* find_incoming(rank_state& rank, envelope const& head,
                                                          std::uint32_t number) {
  incoming_message* found = rank.incoming;
  while (found != nullptr && (found->note.number != number || found->head.source != head.source ||
                              found->head.context() != head.context()))
    found = found->next;
  return found;
}

/// A message whose first part has arrived; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW incoming_message* new_incoming(rank_state& rank, envelope const& head,
                                                         part_note const& note) {
  auto* const made = static_cast<incoming_message*>(allocate(sizeof(incoming_message)));
  if (made == nullptr) return nullptr;
  made->received = 0;
  made->note = note;
  made->head = {head.tag, head.source, head.context() << 8};
  made->whole = nullptr;
  made->wanted = take_direct_receive(rank, head, note.size);
  if (made->wanted == nullptr) {
    auto* const whole = static_cast<message*>(allocate(sizeof(message) + note.size));
    if (whole == nullptr) {
      release(made);
      return nullptr;
    }
    whole->belongs_to = message::owner::process;
    whole->head = made->head;
    whole->size = note.size;
    whole->data = whole->inline_data();
    whole->is_taken = note.acknowledgement;
    whole->capacity = 0;
    made->whole = whole;
  }
  made->next = rank.incoming;
  return rank.incoming = made;
}

QUARRY_SLOW void remove(rank_state& rank, incoming_message* done) {
  incoming_message** link = &rank.incoming;
  while (*link != done) link = &(*link)->next;
  *link = done->next;
  release(done);
}

/// Copies the part that has arrived.
QUARRY_SLOW void read_part(rank_state& rank, own_mail_reader const& mails, char* to,
                           std::uint32_t size) {
  if (!is_in_block(size)) return read_any_extended(mails, to, size);
  long_work const copies{rank, size};
  mails.acquire();
  copy_bytes(to, block_of(rank.rank, (mails.number() - 1) % mail_slots), size);
  simt::fence_before_stores();  // (F)
}

/// Says to the sender of a synchronous send that it has been received. 0: it is not one.
QUARRY_SLOW void acknowledge(std::uint32_t acknowledgement) {
  if (acknowledgement == 0) return;
  std::uint32_t const sender = (acknowledgement - 1) / acknowledgement_words;
  quarry_mpi_put(
      &the_processes()
           .acknowledged[std::uint64_t{index_in_process(sender)} * acknowledgement_words +
                         (acknowledgement - 1) % acknowledgement_words],
      1, process_of(sender));
  note_activity();
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
    auto const part = left < most_in_part() ? static_cast<std::uint32_t>(left) : most_in_part();
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
                           own_mail_reader::arrival const& arrived) {
  envelope const& head = arrived.head;
  alignas(8) part_note note;
  load_numbered(numbered_units{mails.later_units(), mails.number()}, reinterpret_cast<char*>(&note),
                sizeof(note), whole_share);
  if (note.size == arrived.size()) {  // it is the only part
    if (request* const wanted = take_direct_receive(rank, head, note.size)) {
      read_part(rank, mails, static_cast<char*>(wanted->data), arrived.size());
      take_message(mails);
      acknowledge(note.acknowledgement);
      complete_direct_receive(rank, *wanted, head, note.size);
      return true;
    }
  }
  incoming_message* found = find_incoming(rank, head, note.number);
  if (found == nullptr) found = new_incoming(rank, head, note);
  if (found == nullptr) return false;
  request* const wanted = found->wanted;
  message* const whole = found->whole;
  char* const to = wanted != nullptr ? static_cast<char*>(wanted->data) : whole->inline_data();
  read_part(rank, mails, to + found->received, arrived.size());
  found->received += arrived.size();
  take_message(mails);
  if (found->received < note.size) return true;
  remove(rank, found);
  if (wanted == nullptr) {
    match_message(rank, whole);
  } else {
    acknowledge(note.acknowledgement);
    complete_direct_receive(rank, *wanted, head, note.size);
  }
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

QUARRY_SLOW void acknowledge(message const& received) { acknowledge(received.is_taken); }

QUARRY_SLOW int fail_across_processes(rank_state& rank, MPI_Comm communicator,
                                      char const* function) {
  return fail(rank, communicator, MPI_ERR_UNSUPPORTED_OPERATION, function,
              "not available to ranks of several processes; processes", the_processes().count);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
