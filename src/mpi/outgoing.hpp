// SPDX-License-Identifier: Apache-2.0
// Messages that do not fit in a slot: their memory, on the sender's side.
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Messages of at most this many bytes are copied, so that the sender need not wait.
inline constexpr bytes most_eager = 4096;

#ifdef QUARRY_MPI_PROCESSES
/// The same as `is_received` for a message to another process (message_parts.hpp).
[[nodiscard]] QUARRY_SLOW bool is_acknowledged(message& sent);
#endif

/// Whether the receiver has copied the data. (E) synchronizes with (D), so that the sender may
/// change the data.
[[nodiscard]] QUARRY_HD inline bool is_received(message& sent) {
#ifdef QUARRY_MPI_PROCESSES
  if (sent.belongs_to == message::owner::process) return is_acknowledged(sent);
#endif
  // The first load is a hint (L): an acquire would empty the GPU's cache at every look.
  simt::atomic_ref<std::uint32_t> const word{sent.is_taken};
  return word.load(simt::relaxed) != 0 && word.load(returned_order) != 0;  // (E)
}

/// Memory for a copy of a message of `size` bytes. A rank keeps some short ones for reuse, because
/// the heap takes longer than the rest of a send. The receiver frees the others. Null if the heap
/// has no memory.
[[nodiscard]] QUARRY_SLOW message* new_outgoing(rank_state& rank, bytes size);

/// The kept message that is next to be used, if the receiver does not need it any more and it has
/// room for `size` bytes; else null.
[[nodiscard]] QUARRY_FAST message* free_kept(rank_state& rank, bytes size) {
  constexpr std::uint32_t places = sizeof(rank.kept) / sizeof(rank.kept[0]);
  message* const kept = rank.kept[rank.next_kept % places];
  if (kept == nullptr || kept->capacity < size || !is_received(*kept)) return nullptr;
  ++rank.next_kept;
  return kept;
}

/// Puts a message into the receiver's mailbox, in its slot or as an address. Waits, with progress,
/// until the slot is free. `reason` is shown if all ranks wait.
QUARRY_SLOW void post(rank_state& rank, std::uint32_t target, message& sent,
                      wait_reason const& reason);

/// Waits until the slot is free, and takes messages meanwhile, but only two between two looks for
/// the slot: taking one takes many microseconds, and lets another one come.
QUARRY_SLOW void wait_for_slot(rank_state& rank, sender_slot& slot, wait_reason const& reason);

}  // namespace quarry::inline QUARRY_ABI::mpi
