// SPDX-License-Identifier: Apache-2.0
// Maps an address to the pools that have a block there: the first step of a lookup.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/detail/chunk_table.hpp"
#include "quarry/host/detail/process_state.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::detail {

/// Maps each map page of 64 KiB of the address space to the pools that have a block there.
///
/// A lookup is lock-free. It takes two loads if one pool has the map page. The entry of a map page
/// with one pool is written by compare and swap. If several pools share a map page (a pool on a
/// pool, or two small blocks), its entry is a list. A mutex serialises all changes of lists. Pools
/// take blocks rarely, so this mutex costs no throughput. The map costs 8 bytes per 64 KiB.
///
/// Nodes of lists are reused. So a reader that follows a list may end up in another list. Then it
/// asks pools that do not have the address. `changes` increases before a node can be reused. A
/// reader that finds nothing tries again if `changes` increased meanwhile.
///
/// Memory order. A reader loads an entry or a leaf by (L), an acquire load. So it sees the view,
/// node or zeros that were written before (P), the release that published them. A relaxed exchange
/// empties an entry: a reader dereferences nothing through an empty entry. The second load of
/// `changes` (V) may be relaxed, because the loads of the nodes before it acquire (single_writer).
class QUARRY_API page_map {
 public:
  static constexpr std::uint64_t map_page = 1 << 16;
  // larger than the memory of a GPU; a block of this size has 32 MiB of entries
  static constexpr bytes max_block_bytes = bytes{1} << 38;

  /// Adds a block of `view`. Ignores a block that is not `is_known`: empty, beyond 2^48, or larger
  /// than `max_block_bytes`. Throws std::bad_alloc and then changes nothing.
  static void add(chunk_view const& view, std::uint64_t base, bytes size);
  static void remove(chunk_view const& view, std::uint64_t base, bytes size) noexcept;

  /// The only pool that has a block in the map page of `address`, which is below 2^48; nullptr if
  /// no pool or several pools have such a block.
  [[nodiscard]] static chunk_view const* only_view(std::uint64_t address) {
    entry const* const leaf =
        process_wide.leaves[address / leaf_bytes].load(std::memory_order_acquire);  // (L)
    if (leaf == nullptr) return nullptr;
    std::uint64_t const pools =
        leaf[address % leaf_bytes / map_page].load(std::memory_order_acquire);  // (L)
    return pools % 2 == 0 ? reinterpret_cast<chunk_view const*>(pools) : nullptr;
  }

  /// Calls `visit(view)` for each pool that has a block in the map page of `address`. Returns false
  /// if it may have missed a pool.
  template <class Visit>
  [[nodiscard]] static bool visit(std::uint64_t address, Visit const& visit) {
    if (address >= object_starts::end) return true;
    entry const* const leaf =
        process_wide.leaves[address / leaf_bytes].load(std::memory_order_acquire);  // (L)
    if (leaf == nullptr) return true;
    std::uint64_t const old_changes = process_wide.changes.load_acquire();
    std::uint64_t const pools =
        leaf[address % leaf_bytes / map_page].load(std::memory_order_acquire);  // (L)
    if (pools % 2 == 0) {
      if (pools != 0) visit(*reinterpret_cast<chunk_view const*>(pools));
      return true;
    }
    for (node const* listed = reinterpret_cast<node const*>(pools - 1); listed != nullptr;
         listed = listed->next.load_acquire()) {
      if (chunk_view const* const view = listed->view.load_acquire()) visit(*view);
    }
    return process_wide.changes == old_changes;  // (V)
  }

  /// Bytes of the entries for blocks of `size` bytes in all.
  [[nodiscard]] static constexpr bytes share_of(bytes size) {
    return size / map_page * sizeof(process_state::entry);
  }

  /// Whether `add` adds this block: it is not empty, lies below 2^48, and has at most
  /// `max_block_bytes` bytes.
  [[nodiscard]] static bool is_known(std::uint64_t base, bytes size) {
    return size != 0 && size <= max_block_bytes && base < object_starts::end &&
           size <= object_starts::end - base;
  }

 private:
  friend struct process_layout;

  struct node {
    single_writer<chunk_view const*> view;
    single_writer<node*> next;
    std::uint32_t blocks;  // the view's blocks in the map page
  };
  using entry = process_state::entry;  // 0; a view; or a list of nodes, plus 1
  static constexpr std::uint64_t leaf_bytes = std::uint64_t{1} << 32;
  static_assert(process_state::leaf_count == object_starts::end / leaf_bytes);

  [[nodiscard]] static entry& at(std::uint64_t base) {
    return process_wide.leaves[base / leaf_bytes].load(
        std::memory_order_relaxed)[base % leaf_bytes / map_page];
  }
  [[nodiscard]] static node& fresh_node(chunk_view const* view, std::uint32_t blocks, node* next);
  static void free_node(node& freed) noexcept;
  static void add_to(entry& pools, chunk_view const& view);
  static void remove_from(entry& pools, chunk_view const& view) noexcept;
};

}  // namespace quarry::inline QUARRY_ABI::detail
