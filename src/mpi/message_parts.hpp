// SPDX-License-Identifier: Apache-2.0
// Messages to other processes that do not fit in a slot and its extension, that have gaps, or whose
// sender waits for their receive. In programs of one process there are none.
//
// No process can read such a message from another. So the sender puts it into the receiver's
// mailbox in parts, each with a ticket of its own. A part's slot has a `part_note`. A short part
// lies in the slot's extension, a longer one in the slot's block: bytes that arrive before the
// slot's word (K), which the receiver acquires (G). So the staging area of a rank is a block for
// each slot of its mailbox, and the sender fills some while the receiver copies from others. The
// ticket says whether the block is free. If it is not, the sender waits, with progress.
//
// The parts of a message arrive in their order, and between them no other part of this sender and
// context. If a receive for the message waits when the first part arrives, and has room, it matches
// then, and parts are copied to its buffer. Otherwise the receiver joins the parts in its heap, and
// the message matches when its last part has arrived. Either way messages of one sender match in
// their order, since all parts of a message arrive before the sender's next message.
//
// Memory order of blocks. The receiver reads a block before it returns the slot (B), and the next
// sender writes the block after (T). On the GPU both are relaxed, and blocks are plain memory. So
// the receiver has a fence before (B), and the sender one after (T): (F). They make (T) acquire
// what the receiver has done before (B).
//
// A synchronous send waits for a word of the sender's own memory. The receiver puts it when the
// message has been received. Each rank has `acknowledgement_words`; a further synchronous send
// waits, with progress, until one is free.
#pragma once

#include "outgoing.hpp"
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Synchronous sends of a rank to other processes that may be in progress at once.
inline constexpr std::uint32_t acknowledgement_words = 64;
/// With more ranks, `part_note::acknowledgement` has too few bits.
inline constexpr std::uint32_t most_ranks_in_processes = ~std::uint32_t{0} / acknowledgement_words;

/// The second to fifth word of a part's slot. The first is the part's size.
struct part_note {
  std::uint32_t number;           // of the sender's message
  std::uint32_t acknowledgement;  // 0: none is wanted; else 1 + the number of the sender's word
  std::uint64_t size;             // of the whole message
};
static_assert(sizeof(part_note) == 16);

/// A message of which parts are missing.
struct incoming_message {
  incoming_message* next;
  std::uint64_t received;  // bytes
  part_note note;
  envelope head;
  message* whole;   // null if there is a receive for the message
  request* wanted;  // the receive
};

/// The blocks of a rank: one for each slot, and one from which the rank sends.
inline constexpr std::uint32_t blocks_of_rank = mail_slots + 1;
/// All blocks of a process's ranks take at most so much memory of a GPU, and a block so much. Each
/// part needs fences, which take as long as the copy of some hundred KiB.
inline constexpr bytes block_budget = bytes{256} << 20;
inline constexpr bytes most_in_block = bytes{4} << 20;

/// The size of a block for so many ranks, if all blocks may take `budget` bytes, and each `most`; 0
/// if blocks would not be longer than extensions.
[[nodiscard]] constexpr std::uint32_t block_bytes_for(bytes budget, std::uint32_t ranks,
                                                      bytes most) {
  constexpr bytes line = 128;
  bytes const room = budget / (bytes{ranks} * blocks_of_rank) / line * line;
  if (room <= most_extended) return 0;
  return static_cast<std::uint32_t>(room < most ? room : most);
}

#ifdef QUARRY_MPI_PROCESSES
/// Whether the message that has arrived is a part: others that are elsewhere are ordered.
[[nodiscard]] QUARRY_FAST bool is_part(envelope const& head) {
  return (head.about & (envelope::is_elsewhere | envelope::is_ordered)) == envelope::is_elsewhere;
}

/// Sends to a rank of another process. Returns what the sender must wait for; null unless
/// `is_synchronous`. `head` has no size.
[[nodiscard]] QUARRY_SLOW message* send_in_parts(rank_state& rank, std::uint32_t target,
                                                 envelope const& head, void const* data,
                                                 bytes count, MPI_Datatype type,
                                                 bool is_synchronous, wait_reason const& reason,
                                                 message& own);

/// Takes the part that has arrived, and receives its message if it was the last part. Returns
/// false, and has done nothing, if the heap has no memory.
[[nodiscard]] QUARRY_SLOW bool take_part(rank_state& rank, own_mail_reader& mails,
                                         own_mail_reader::arrival const& arrived);

/// Says to the sender of a synchronous send that it has been received.
QUARRY_SLOW void acknowledge(message const& received);
#else
[[nodiscard]] QUARRY_FAST constexpr bool is_part(envelope const&) { return false; }
#endif

/// Fails: the function cannot work in programs of several processes. Defined in these alone.
QUARRY_SLOW int fail_across_processes(rank_state& rank, MPI_Comm communicator,
                                      char const* function);

}  // namespace quarry::inline QUARRY_ABI::mpi
