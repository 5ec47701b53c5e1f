// SPDX-License-Identifier: Apache-2.0
#include "outgoing.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_SLOW message* allocate_message(bytes capacity, message::owner owner) {
  auto* const made = static_cast<message*>(allocate(sizeof(message) + capacity));
  if (made == nullptr) return nullptr;
  made->data = made->inline_data();
  made->capacity = static_cast<std::uint32_t>(capacity);
  made->belongs_to = owner;
  made->is_taken = 1;
  return made;
}

}  // namespace

[[nodiscard]] QUARRY_SLOW message* new_outgoing(rank_state& rank, bytes size) {
  constexpr std::uint32_t places = sizeof(rank.kept) / sizeof(rank.kept[0]);
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; size <= most_eager && i < places; ++i) {
    message*& kept = rank.kept[(rank.next_kept + i) % places];
    if (kept != nullptr && !is_received(*kept)) continue;
    rank.next_kept += i + 1;
    if (kept != nullptr && kept->capacity < size) {
      release(kept);
      kept = nullptr;
    }
    if (kept == nullptr) kept = allocate_message(message_capacity(size), message::owner::sender);
    if (kept != nullptr) kept->is_taken = 0;
    return kept;
  }
  return allocate_message(size, message::owner::receiver);
}

QUARRY_SLOW void wait_for_slot(rank_state& rank, sender_slot& slot, wait_reason const& reason) {
  constexpr std::uint32_t at_once = 2;  // take_message returns slots in pairs
  own_mail_reader const mails = reader_of(rank);
  poll_until(rank, reason, [&] {
    slot.look();
    if (slot.is_free()) return true;
    if (mails.has_message()) progress(rank, nullptr, at_once);
    return false;
  });
}

QUARRY_SLOW void post(rank_state& rank, std::uint32_t target, message& sent,
                      wait_reason const& reason) {
  sender_slot slot{mailbox_of(target), way_to(target)};
  if (!slot.is_free()) wait_for_slot(rank, slot, reason);
  envelope head = sent.head;
  head.about &= ~envelope::is_signed;
  head.about |= envelope::is_elsewhere | envelope::is_ordered | 8;
  auto const address = reinterpret_cast<std::uint64_t>(&sent);
  slot.write_ordered(
      head, 2, [&](std::uint32_t i) { return static_cast<std::uint32_t>(address >> 32 * i); });
  note_mail(slot);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
