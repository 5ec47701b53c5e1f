// SPDX-License-Identifier: Apache-2.0
// The numbers of communicators. Messages have them, so that no receive of another communicator gets
// a message.
#pragma once

#include "mailbox.hpp"

#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Contexts that are not in use any more: a bit for each pair of them, in parts that are made when
/// a context of theirs is freed for the first time. The state of a program begins with zeros. The
/// count is at least that of the bits, since it is raised before a bit is set and lowered after
/// one is cleared. Searches begin at one part after another, so that a context is free for a while.
///
/// Memory order. The RMW that sets a bit (F) releases what the context's users have done, and the
/// one that clears it (C) acquires that for its next users: words change by RMWs only, so other
/// bits of a word do not end the release sequence. A count falls after (C), hence after its rise
/// before (F). Parts and the table are made and found as in `shared_once` (I). All other accesses
/// have no order: who sees an old count or word passes by a context, or finds at (C) that another
/// rank has it.
class freed_contexts {
 public:
  static constexpr std::uint32_t in_part = 1u << 14;
  static constexpr std::uint32_t parts = end_of_contexts / 2 / in_part;

  struct part {
    std::uint64_t words[in_part / 64];
    std::uint32_t count;
  };

  /// Notes a context that nobody uses. It is lost if the heap has no memory for its part.
  QUARRY_SLOW void put(std::uint32_t context);

  /// A context that was put and not taken since; 0 if there is none, or if others put and take some
  /// meanwhile. Takes O(parts) steps, and O(1) for each word of a part.
  [[nodiscard]] QUARRY_SLOW std::uint32_t take();

 private:
  part* parts_[parts];   // atomic; null: no context of it was freed
  std::uint32_t first_;  // where the next search begins, modulo `parts`; atomic, wraps
};

/// The first of two new contexts; 0 if all are in use. There are 8 million pairs. Those of freed
/// communicators are used again when all have been used. In a program of several processes they are
/// not, since no process knows when all ranks have freed a communicator.
[[nodiscard]] QUARRY_SLOW std::uint32_t new_contexts();

/// The last rank has freed the communicator with these contexts, and none receives with them.
QUARRY_SLOW void free_contexts(std::uint32_t context);

}  // namespace quarry::inline QUARRY_ABI::mpi
