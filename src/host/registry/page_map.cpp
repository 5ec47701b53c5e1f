// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/page_map.hpp"

#include "host/registry/process_lists.hpp"

namespace quarry::inline QUARRY_ABI::detail {

page_map::node& page_map::fresh_node(chunk_view const* view, std::uint32_t blocks, node* next) {
  auto& unused = lists_of_process().nodes.unused;
  if (unused == nullptr) {
    bytes const room = type_stable_size(1);
    auto* const page = static_cast<node*>(type_stable_allocate(type_stable_use::map_pages, room));
    for (bytes i = 0; i < room / sizeof(node); ++i) free_node(page[i]);
  }
  node& fresh = *static_cast<node*>(unused);
  unused = fresh.next;
  fresh.next = next;
  fresh.view = view;
  fresh.blocks = blocks;
  return fresh;
}
void page_map::free_node(node& freed) noexcept {
  auto& unused = lists_of_process().nodes.unused;
  freed.view = nullptr;
  freed.next = static_cast<node*>(unused);
  unused = &freed;
}

void page_map::add_to(entry& pools, chunk_view const& view) {
  auto const single = reinterpret_cast<std::uint64_t>(&view);
  for (;;) {
    std::uint64_t value = 0;
    if (pools.compare_exchange_strong(value, single, std::memory_order_release,
                                      std::memory_order_relaxed))
      return;  // (P)
    std::lock_guard const lock{lists_of_process().nodes.mutex};
    value = pools.load(std::memory_order_relaxed);
    if (value == 0) continue;
    if (value % 2 == 1) {
      auto* const head = reinterpret_cast<node*>(value - 1);
      for (node* entry = head; entry != nullptr; entry = entry->next) {
        if (entry->view == &view) return void(++entry->blocks);
      }
      pools.store(reinterpret_cast<std::uint64_t>(&fresh_node(&view, 1, head)) + 1,
                  std::memory_order_release);  // (P)
      return;
    }
    node& sole_node =
        fresh_node(reinterpret_cast<chunk_view const*>(value), value == single ? 2 : 1, nullptr);
    node* head = &sole_node;
    if (value != single) {
      try {
        head = &fresh_node(&view, 1, &sole_node);
      } catch (...) {
        free_node(sole_node);
        throw;
      }
    }
    if (pools.compare_exchange_strong(value, reinterpret_cast<std::uint64_t>(head) + 1,
                                      std::memory_order_release, std::memory_order_relaxed))
      return;                                  // (P)
    if (head != &sole_node) free_node(*head);  // no reader has seen these nodes
    free_node(sole_node);
  }
}

void page_map::remove_from(entry& pools, chunk_view const& view) noexcept {
  std::uint64_t value = reinterpret_cast<std::uint64_t>(&view);
  if (pools.compare_exchange_strong(value, 0, std::memory_order_relaxed)) return;
  std::lock_guard const lock{lists_of_process().nodes.mutex};
  value = reinterpret_cast<std::uint64_t>(&view);
  // Cannot happen: a list never becomes a single view again.
  if (pools.compare_exchange_strong(value, 0, std::memory_order_relaxed)) return;
  node* previous = nullptr;
  for (node* entry = reinterpret_cast<node*>(value - 1); entry != nullptr;
       previous = entry, entry = entry->next) {
    if (entry->view != &view) continue;
    if (--entry->blocks != 0) return;
    if (previous != nullptr) {
      previous->next = entry->next;
    } else {
      node* const next = entry->next;
      pools.store(next == nullptr ? 0 : reinterpret_cast<std::uint64_t>(next) + 1,
                  std::memory_order_release);  // (P)
    }
    // The order matters. The node has left the list, so later readers cannot reach it. It is not
    // reused yet, so a reader that has reached the node reads the new count.
    process_wide.changes = process_wide.changes + 1;
    free_node(*entry);
    return;
  }
}

void page_map::add(chunk_view const& view, std::uint64_t base, bytes size) {
  std::uint64_t const first = base / map_page * map_page;
  std::uint64_t const end = base + size;
  if (!is_known(base, size)) return;
  for (std::uint64_t leaf = first / leaf_bytes; leaf <= (end - 1) / leaf_bytes; ++leaf) {
    if (process_wide.leaves[leaf].load(std::memory_order_relaxed) != nullptr) continue;
    constexpr bytes leaf_size = leaf_bytes / map_page * sizeof(entry);
    auto* const fresh =
        static_cast<entry*>(type_stable_allocate(type_stable_use::map_pages, leaf_size));
    entry* expected = nullptr;
    if (!process_wide.leaves[leaf].compare_exchange_strong(expected, fresh,
                                                           std::memory_order_acq_rel)) /* (P) */
      type_stable_deallocate(type_stable_use::map_pages, fresh, leaf_size);
  }
  std::uint64_t done = first;
  try {
    for (; done < end; done += map_page) add_to(at(done), view);
  } catch (...) {
    for (std::uint64_t page = first; page < done; page += map_page) remove_from(at(page), view);
    throw;
  }
}

void page_map::remove(chunk_view const& view, std::uint64_t base, bytes size) noexcept {
  std::uint64_t const end = base + size;
  if (!is_known(base, size)) return;
  for (std::uint64_t page = base / map_page * map_page; page < end; page += map_page)
    remove_from(at(page), view);
}

}  // namespace quarry::inline QUARRY_ABI::detail
