// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "orders.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A message on its way: this header, then for small or staged messages the data.
///
/// The sender owns it until it pushes it to the receiver's mailbox, then the receiver, which frees
/// it. A sender that waits for the receiver gives the address of a word of its own (`done`).
struct message {
  message* next;  // the next message in the mailbox; atomic
  bytes size;
  void const* data;     // behind this header, or the sender's buffer if the sender waits
  std::uint32_t* done;  // set to 1 when the data was received (D); null: nobody waits; atomic
  std::int32_t source;  // the sender's rank in the communicator
  std::int32_t tag;
  std::uint32_t context;
  std::uint32_t capacity;  // bytes behind the header
  message* later;          // the next in the receiver's list of unexpected messages
  std::uint32_t holds;     // who needs the message: the mailbox's end (1), its data (2)
  std::uint32_t unused;

  [[nodiscard]] QUARRY_HD char* inline_data() { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(message) == 64);

/// The mailbox of a rank: a queue with many senders and one receiver.
///
/// It is a chain of messages; `first` is the one that the receiver took last, or a stub. A sender
/// exchanges `last` (X), then links its predecessor to the message (K). Between the two steps the
/// chain is broken there; the receiver then sees no message and looks again. So a send is
/// wait-free, a mailbox is never full, and messages of one sender stay in order. The message that
/// was taken last stays in the chain, so that taking a message costs no atomic operation.
///
/// Memory order. The receiver loads the link (G) with acquire and synchronizes with (K), which
/// releases the message's contents. (X) is acq_rel: the predecessor that it returns was initialised
/// before its sender's (X), so (K) follows that.
/// Rejected: D. Vyukov's queue, in which a stub returns to the chain with another (X) whenever the
/// receiver takes the last message (on an H100, 2 of 10 microseconds for each message).
class mailbox {
 public:
  QUARRY_HD explicit mailbox(rank_state& owner) : owner_{owner} {}

  QUARRY_HD static void initialise(rank_state& owner) {
    auto* const stub = reinterpret_cast<message*>(owner.stub);
    *stub = message{};
    stub->holds = end_hold;
    owner.first = owner.last = stub;
  }

  static constexpr std::uint32_t end_hold = 1;
  static constexpr std::uint32_t data_hold = 2;

  QUARRY_HD void push(message* sent) const {
    sent->holds = data_hold;
    simt::atomic_ref<message*>{sent->next}.store(nullptr, simt::relaxed);
    message* const previous =
        simt::atomic_ref<message*>{owner_.last}.exchange(sent, push_exchange_order);  // (X)
    simt::atomic_ref<message*>{previous->next}.store(sent, push_link_order);          // (K)
  }

  /// Whether there is a message. Only the owner calls it.
  [[nodiscard]] QUARRY_HD bool has_message() const {
    return simt::atomic_ref<message*>{owner_.first->next}.load(simt::relaxed) != nullptr;  // (L)
  }

  /// Takes the oldest message; null if there is none. `replaced` is the message that was taken
  /// before; if nothing holds it any more, the caller frees it. Only the owner calls it.
  [[nodiscard]] QUARRY_HD message* pop(message*& replaced) const {
    message* const oldest = simt::atomic_ref<message*>{owner_.first->next}.load(pop_order);  // (G)
    if (oldest == nullptr) return nullptr;
    replaced = owner_.first;
    replaced->holds &= ~end_hold;
    oldest->holds |= end_hold;
    owner_.first = oldest;
    return oldest;
  }

  /// Whether `old` is the part of the rank's state that the mailbox begins with.
  [[nodiscard]] QUARRY_HD bool is_stub(message const* old) const {
    return old == reinterpret_cast<message const*>(owner_.stub);
  }

 private:
  rank_state& owner_;
};
static_assert(sizeof(message) <= sizeof(rank_state::stub));

}  // namespace quarry::inline QUARRY_ABI::mpi
