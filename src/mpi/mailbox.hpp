// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "orders.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A message on its way: this header, then for small or staged messages the data.
///
/// The sender owns it until it pushes it to the receiver's mailbox, then the receiver. If the
/// sender waits for it (`is_awaited`), the receiver returns it by (D) and the sender frees it.
struct message {
  message* next;  // the next message in the mailbox or in a list of the receiver; atomic
  bytes size;
  void const* data;     // behind this header, or the sender's buffer if the sender waits
  std::int32_t source;  // the sender's rank in the communicator
  std::int32_t tag;
  std::uint32_t context;
  std::uint32_t is_awaited;
  std::uint32_t is_done;   // atomic
  std::uint32_t capacity;  // bytes behind the header

  [[nodiscard]] QUARRY_HD char* inline_data() { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(message) == 48 || sizeof(message) == 56);

/// The mailbox of a rank: a queue with many senders and one receiver (after D. Vyukov's queue of
/// intrusive nodes).
///
/// A sender exchanges `last` (X), then links its predecessor to the message (K). Between the two
/// steps the chain is broken there; the receiver then sees an empty mailbox and looks again. So a
/// send is wait-free, a mailbox is never full, and messages of one sender stay in order.
///
/// Memory order. The receiver loads the link (G) with acquire and synchronizes with (K), which
/// releases the message's contents. (X) is acq_rel: the predecessor that it returns was initialised
/// before its own sender's (X), so (K) may write to it.
///
/// `first` is the receiver's. The queue always contains at least one message: the stub, which has
/// no contents and returns to the queue when it would become empty.
class mailbox {
 public:
  QUARRY_HD explicit mailbox(rank_state& owner) : owner_{owner} {}

  QUARRY_HD static void initialise(rank_state& owner) {
    message* const stub = reinterpret_cast<message*>(owner.stub);
    stub->next = nullptr;
    owner.first = owner.last = stub;
  }

  QUARRY_HD void push(message* sent) const {
    simt::atomic_ref<message*>{sent->next}.store(nullptr, simt::relaxed);
    message* const previous =
        simt::atomic_ref<message*>{owner_.last}.exchange(sent, push_exchange_order);  // (X)
    simt::atomic_ref<message*>{previous->next}.store(sent, push_link_order);          // (K)
  }

  /// Removes the oldest message; null if there is none. Only the owner calls it.
  [[nodiscard]] QUARRY_HD message* pop() const {
    message* oldest = owner_.first;
    message* next = load_next(oldest);
    if (oldest == stub()) {
      if (next == nullptr) return nullptr;
      owner_.first = oldest = next;
      next = load_next(oldest);
    }
    if (next == nullptr) {
      // `oldest` is the last message unless a send is under way
      if (simt::atomic_ref<message*>{owner_.last}.load(simt::relaxed) != oldest) return nullptr;
      push(stub());
      next = load_next(oldest);
      if (next == nullptr) return nullptr;
    }
    owner_.first = next;
    return oldest;
  }

 private:
  [[nodiscard]] QUARRY_HD message* stub() const { return reinterpret_cast<message*>(owner_.stub); }
  [[nodiscard]] QUARRY_HD static message* load_next(message* of) {
    return simt::atomic_ref<message*>{of->next}.load(pop_order);  // (G)
  }

  rank_state& owner_;
};
static_assert(sizeof(message) <= sizeof(rank_state::stub));

}  // namespace quarry::inline QUARRY_ABI::mpi
