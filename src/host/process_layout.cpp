// SPDX-License-Identifier: Apache-2.0
// The layout that QUARRY_STATE_LAYOUT stands for, where the build is one that others share memory
// with: if this does not compile, copies of the library that have the same number would misread
// each other's memory. Raise the number in core/abi.hpp, and write the new layout here.
//
// What a change of a bit's meaning would do it does not see: the number counts such changes, too.
#include "process_lists.hpp"

#include <cstddef>

namespace quarry::inline QUARRY_ABI {

#if defined(__x86_64__) && defined(__GLIBCXX__) && defined(__GLIBC__) && \
    !defined(_GLIBCXX_DEBUG) && _GLIBCXX_USE_CXX11_ABI

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

struct process_layout {
  static_assert(QUARRY_STATE_LAYOUT == 2);

  static_assert(sizeof(process_state) == 524312);
  static_assert(offsetof(process_state, changes) == 524288);
  static_assert(offsetof(process_state, lives) == 524296);
  static_assert(offsetof(process_state, lists) == 524304);

  static_assert(sizeof(process_lists) == 1288);
  static_assert(offsetof(process_lists, forks) == 0);
  static_assert(offsetof(process_lists, forks.mutex) == 40);
  static_assert(offsetof(process_lists, forks.first) == 80);
  static_assert(offsetof(process_lists, forks.awaited) == 88);
  static_assert(offsetof(process_lists, forks.latest_copy) == 96);
  static_assert(offsetof(process_lists, ledgers) == 104);
  static_assert(offsetof(process_lists, ledgers.by_id) == 144);
  static_assert(offsetof(process_lists, ledgers.last) == 192);
  static_assert(offsetof(process_lists, everywhere) == 200);
  static_assert(offsetof(process_lists, everywhere_count) == 712);
  static_assert(offsetof(process_lists, nodes) == 720);
  static_assert(offsetof(process_lists, nodes.unused) == 760);
  static_assert(offsetof(process_lists, waiting) == 768);
  static_assert(offsetof(process_lists, waiting.by_size) == 808);

  static_assert(sizeof(copy_at_fork) == 64);
  static_assert(offsetof(copy_at_fork, its_) == 32);
  static_assert(sizeof(held_at_fork) == 32);
  static_assert(offsetof(held_at_fork, mutex_) == 0);
  static_assert(offsetof(held_at_fork, next_) == 8);
  static_assert(offsetof(held_at_fork, previous_) == 16);
  static_assert(offsetof(held_at_fork, is_held_) == 24);

  static_assert(sizeof(ledger) == 152);
  static_assert(offsetof(ledger, table_) == 0);
  static_assert(offsetof(ledger, place_) == 8);
  static_assert(offsetof(ledger, id_) == 12);
  static_assert(offsetof(ledger, mutex_) == 24);
  static_assert(offsetof(ledger, name_) == 64);
  static_assert(offsetof(ledger, notes_) == 96);
  static_assert(sizeof(allocation_note) == 64);
  static_assert(offsetof(allocation_note, where) == 32);
  static_assert(offsetof(allocation_note, frames) == 40);

  static_assert(sizeof(piece_table) == 88);
  static_assert(offsetof(piece_table, book_) == 0);
  static_assert(offsetof(piece_table, pieces_) == 8);
  static_assert(offsetof(piece_table, slots_) == 16);
  static_assert(offsetof(piece_table, starts_) == 24);
  static_assert(offsetof(piece_table, slot_count_) == 64);
  static_assert(offsetof(piece_table, made_) == 80);
  static_assert(sizeof(piece_book) == 56);
  static_assert(offsetof(piece_book, pieces) == 8);
  static_assert(offsetof(piece_book, slots) == 16);
  static_assert(offsetof(piece_book, slots_life) == 24);
  static_assert(offsetof(piece_book, starts) == 32);
  static_assert(offsetof(piece_book, slices) == 40);
  static_assert(offsetof(piece_book, owner) == 48);
  static_assert(sizeof(piece_array) == 32);
  static_assert(sizeof(piece_table::piece) == 32);
  static_assert(offsetof(piece_table::piece, prev) == 8);
  static_assert(offsetof(piece_table::piece, link_prev) == 16);
  static_assert(sizeof(begin_table) == 64);
  static_assert(sizeof(address_starts) == 1065224);
  static_assert(sizeof(slice_directory) == 1048576);
  static_assert(sizeof(slice_block) == 8256);

  static_assert(sizeof(directory::node) == 24);
  static_assert(offsetof(directory::node, next) == 8);
  static_assert(offsetof(directory::node, blocks) == 16);
  static_assert(directory::granule == 65536);
  static_assert(directory::leaf_bytes == 4294967296);
  static_assert(static_cast<int>(lasting_use::count) == 10);
};

#endif

}  // namespace quarry::inline QUARRY_ABI
