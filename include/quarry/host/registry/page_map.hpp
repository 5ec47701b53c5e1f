// SPDX-License-Identifier: Apache-2.0
// Which pools' blocks lie where: the first step of a lookup.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/registry/chunk_table.hpp"
#include "quarry/host/registry/process_state.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI {

/// Granules of 64 KiB of the address space, each with the pools that have a block there.
///
/// Looking is lock-free: two loads where one pool has the map page. A map page with one pool is
/// written by compare and swap; one that several pools share (a pool upon a pool, or two small
/// blocks) has a list, and a mutex for who changes lists. Blocks are taken rarely, so it serialises
/// nothing that counts. Costs 8 bytes for 64 KiB.
///
/// Nodes of lists are used again, so that who follows a list may stray to another: then he asks
/// pools that do not know the address. `changes` goes up before a node can be used again; who finds
/// nothing looks again if it went up meanwhile.
///
/// Memory order. Who reads an entry or a leaf by (L), an acquire load, sees the view, node or zeros
/// that were written before (P), the release that put it there. An entry is emptied by a relaxed
/// exchange: nothing is read through what is not there. The second look at `changes` may be relaxed
/// (V), since the nodes' loads before it acquire (watched).
class QUARRY_API page_map {
 public:
  static constexpr std::uint64_t map_page = 1 << 16;
  // more than a GPU has, and 32 MiB of entries
  static constexpr bytes most_of_block = bytes{1} << 38;

  /// Says that `view` has a block. Throws std::bad_alloc, and has changed nothing then. Does
  /// nothing for what is not known: beyond 2^48, or larger than `most_of_block`.
  static void add(chunk_view const& view, std::uint64_t base, bytes size);
  static void remove(chunk_view const& view, std::uint64_t base, bytes size) noexcept;

  /// Of an address below 2^48 the only pool that has a block in its map page; nullptr if none has,
  /// or several.
  [[nodiscard]] static chunk_view const* only_one(std::uint64_t address) {
    entry const* const here =
        process_wide.leaves[address / leaf_bytes].load(std::memory_order_acquire);  // (L)
    if (here == nullptr) return nullptr;
    std::uint64_t const what =
        here[address % leaf_bytes / map_page].load(std::memory_order_acquire);  // (L)
    return what % 2 == 0 ? reinterpret_cast<chunk_view const*>(what) : nullptr;
  }

  /// Calls `visit(view)` for each that has a block in the address's map page. False if one may have
  /// been missed.
  template <class Visit>
  [[nodiscard]] static bool visit(std::uint64_t address, Visit const& visit) {
    if (address >= object_starts::end) return true;
    entry const* const here =
        process_wide.leaves[address / leaf_bytes].load(std::memory_order_acquire);  // (L)
    if (here == nullptr) return true;
    std::uint64_t const before = process_wide.changes.load_acquire();
    std::uint64_t const what =
        here[address % leaf_bytes / map_page].load(std::memory_order_acquire);  // (L)
    if (what % 2 == 0) {
      if (what != 0) visit(*reinterpret_cast<chunk_view const*>(what));
      return true;
    }
    for (node const* at = reinterpret_cast<node const*>(what - 1); at != nullptr;
         at = at->next.load_acquire()) {
      if (chunk_view const* const view = at->view.load_acquire()) visit(*view);
    }
    return process_wide.changes == before;  // (V)
  }

  /// Bytes of entries for as much as `size` of blocks.
  [[nodiscard]] static constexpr bytes share_of(bytes size) {
    return size / map_page * sizeof(process_state::entry);
  }

  [[nodiscard]] static bool is_known(std::uint64_t base, bytes size) {
    return size != 0 && size <= most_of_block && base < object_starts::end &&
           size <= object_starts::end - base;
  }

 private:
  friend struct process_layout;

  struct node {
    single_writer<chunk_view const*> view;
    single_writer<node*> next;
    std::uint32_t blocks;  // of the view in the map page
  };
  using entry = process_state::entry;  // 0; a view; or a list of nodes, plus 1
  static constexpr std::uint64_t leaf_bytes = std::uint64_t{1} << 32;
  static_assert(process_state::leaf_count == object_starts::end / leaf_bytes);

  [[nodiscard]] static entry& at(std::uint64_t base) {
    return process_wide.leaves[base / leaf_bytes].load(
        std::memory_order_relaxed)[base % leaf_bytes / map_page];
  }
  [[nodiscard]] static node& fresh_node(chunk_view const* view, std::uint32_t blocks, node* next);
  static void give_back(node& gone) noexcept;
  static void add_to(entry& here, chunk_view const& view);
  static void remove_from(entry& here, chunk_view const& view) noexcept;
};

}  // namespace quarry::inline QUARRY_ABI
