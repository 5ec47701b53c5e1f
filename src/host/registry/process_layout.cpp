// SPDX-License-Identifier: Apache-2.0
// Checks the memory layout that QUARRY_STATE_LAYOUT names, for builds whose copies share memory. If
// this file does not compile, copies of the library with the same number would misread each other's
// memory. Raise the number in core/abi.hpp, and write the new layout here.
//
// These checks cannot see a change of a bit's meaning. Raise the number for such changes, too.
#include "host/registry/process_lists.hpp"

#include <cstddef>

namespace quarry::inline QUARRY_ABI::detail {

#if defined(__x86_64__) && defined(__GLIBCXX__) && defined(__GLIBC__) && \
    !defined(_GLIBCXX_DEBUG) && _GLIBCXX_USE_CXX11_ABI

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

struct process_layout {
  static_assert(QUARRY_STATE_LAYOUT == 7);

  static_assert(sizeof(process_state) == 524312);
  static_assert(offsetof(process_state, changes) == 524288);
  static_assert(offsetof(process_state, lives) == 524296);
  static_assert(offsetof(process_state, lists) == 524304);

  static_assert(sizeof(process_lists) == 1360);
  static_assert(offsetof(process_lists, forks) == 0);
  static_assert(offsetof(process_lists, forks.mutex) == 40);
  static_assert(offsetof(process_lists, forks.first) == 80);
  static_assert(offsetof(process_lists, forks.awaited) == 88);
  static_assert(offsetof(process_lists, forks.latest_copy) == 96);
  static_assert(offsetof(process_lists, registrations) == 104);
  static_assert(offsetof(process_lists, registrations.by_id) == 144);
  static_assert(offsetof(process_lists, registrations.last) == 192);
  static_assert(offsetof(process_lists, registrations.unused_views) == 200);
  static_assert(offsetof(process_lists, blockless) == 224);
  static_assert(sizeof(process_lists::blockless_page) == 512);
  static_assert(offsetof(process_lists, blockless_count) == 736);
  static_assert(offsetof(process_lists, nodes) == 744);
  static_assert(offsetof(process_lists, nodes.unused) == 784);
  static_assert(offsetof(process_lists, unused_memory) == 792);
  static_assert(offsetof(process_lists, unused_memory.by_size) == 832);

  static_assert(sizeof(copy_at_fork) == 64);
  static_assert(offsetof(copy_at_fork, handlers_) == 32);
  static_assert(sizeof(held_at_fork) == 32);
  static_assert(offsetof(held_at_fork, mutex_) == 0);
  static_assert(offsetof(held_at_fork, next_) == 8);
  static_assert(offsetof(held_at_fork, previous_) == 16);
  static_assert(offsetof(held_at_fork, is_held_) == 24);
  static_assert(offsetof(held_at_fork, verdict_) == 25);
  static_assert(offsetof(held_at_fork, access_) == 28);
  static_assert(sizeof(mutex_held_at_fork) == 72);

  static_assert(sizeof(registration) == 152);
  static_assert(offsetof(registration, table_) == 0);
  static_assert(offsetof(registration, location_) == 8);
  static_assert(offsetof(registration, id_) == 12);
  static_assert(offsetof(registration, mutex_) == 24);
  static_assert(offsetof(registration, name_) == 64);
  static_assert(offsetof(registration, labels_) == 96);
  static_assert(sizeof(allocation_label) == 64);
  static_assert(offsetof(allocation_label, call_site) == 32);
  static_assert(offsetof(allocation_label, frames) == 40);

  static_assert(sizeof(chunk_table) == 120);
  static_assert(offsetof(chunk_table, view_) == 0);
  static_assert(offsetof(chunk_table, chunks_) == 8);
  static_assert(offsetof(chunk_table, slots_) == 16);
  static_assert(offsetof(chunk_table, starts_) == 24);
  static_assert(offsetof(chunk_table, slot_count_) == 96);
  static_assert(offsetof(chunk_table, made_) == 112);
  static_assert(sizeof(chunk_view) == 56);
  static_assert(offsetof(chunk_view, chunks) == 8);
  static_assert(offsetof(chunk_view, slots) == 16);
  static_assert(offsetof(chunk_view, slots_life) == 24);
  static_assert(offsetof(chunk_view, starts) == 32);
  static_assert(offsetof(chunk_view, slices) == 40);
  static_assert(offsetof(chunk_view, owner) == 48);
  static_assert(sizeof(chunk_array) == 32);
  static_assert(sizeof(chunk_table::chunk) == 32);
  static_assert(offsetof(chunk_table::chunk, prev) == 8);
  static_assert(offsetof(chunk_table::chunk, link_prev_) == 16);
  static_assert(sizeof(base_table) == 64);
  static_assert(sizeof(object_starts) == 1065224);
  static_assert(sizeof(object_starts::leaf) == 1249408);
  static_assert(offsetof(object_starts::leaf, large) == 65536);
  static_assert(offsetof(object_starts::leaf, small) == 200800);
  static_assert(sizeof(object_starts::small_starts) == 32);
  static_assert(offsetof(object_starts::small_starts, offsets) == 8);
  static_assert(sizeof(object_starts::start_bits) == 512);
  static_assert(sizeof(slice_map) == 262144);
  static_assert(sizeof(slice_block) == 8296);
  static_assert(sizeof(slice_group) == 16);
  static_assert(slice_block::bytes_of(32) == 192 && slice_block::bytes_of(4096) == 9344);

  static_assert(sizeof(page_map::node) == 24);
  static_assert(offsetof(page_map::node, next) == 8);
  static_assert(offsetof(page_map::node, blocks) == 16);
  static_assert(page_map::map_page == 65536);
  static_assert(page_map::leaf_bytes == 4294967296);
  static_assert(static_cast<int>(type_stable_use::count) == 11);
};

#endif

}  // namespace quarry::inline QUARRY_ABI::detail
