// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/page_map.hpp"

#include "host/registry/process_lists.hpp"

namespace quarry::inline QUARRY_ABI {

page_map::node& page_map::fresh_node(chunk_view const* view, std::uint32_t blocks, node* next) {
  auto& unused = lists_of_process().nodes.unused;
  if (unused == nullptr) {
    bytes const room = type_stable_size(1);
    auto* const page = static_cast<node*>(type_stable_allocate(type_stable_use::map_pages, room));
    for (bytes i = 0; i < room / sizeof(node); ++i) give_back(page[i]);
  }
  node& fresh = *static_cast<node*>(unused);
  unused = fresh.next;
  fresh.next = next;
  fresh.view = view;
  fresh.blocks = blocks;
  return fresh;
}
void page_map::give_back(node& gone) noexcept {
  auto& unused = lists_of_process().nodes.unused;
  gone.view = nullptr;
  gone.next = static_cast<node*>(unused);
  unused = &gone;
}

void page_map::add_to(entry& here, chunk_view const& view) {
  auto const single = reinterpret_cast<std::uint64_t>(&view);
  for (;;) {
    std::uint64_t what = 0;
    if (here.compare_exchange_strong(what, single, std::memory_order_release,
                                     std::memory_order_relaxed))
      return;  // (P)
    std::lock_guard const reserved{lists_of_process().nodes.mutex};
    what = here.load(std::memory_order_relaxed);
    if (what == 0) continue;
    if (what % 2 == 1) {
      auto* const head = reinterpret_cast<node*>(what - 1);
      for (node* one = head; one != nullptr; one = one->next) {
        if (one->view == &view) return void(++one->blocks);
      }
      here.store(reinterpret_cast<std::uint64_t>(&fresh_node(&view, 1, head)) + 1,
                 std::memory_order_release);  // (P)
      return;
    }
    node& only =
        fresh_node(reinterpret_cast<chunk_view const*>(what), what == single ? 2 : 1, nullptr);
    node* head = &only;
    if (what != single) {
      try {
        head = &fresh_node(&view, 1, &only);
      } catch (...) {
        give_back(only);
        throw;
      }
    }
    if (here.compare_exchange_strong(what, reinterpret_cast<std::uint64_t>(head) + 1,
                                     std::memory_order_release, std::memory_order_relaxed))
      return;                             // (P)
    if (head != &only) give_back(*head);  // nobody has seen them
    give_back(only);
  }
}

void page_map::remove_from(entry& here, chunk_view const& view) noexcept {
  std::uint64_t what = reinterpret_cast<std::uint64_t>(&view);
  if (here.compare_exchange_strong(what, 0, std::memory_order_relaxed)) return;
  std::lock_guard const reserved{lists_of_process().nodes.mutex};
  what = reinterpret_cast<std::uint64_t>(&view);
  // never, as long as lists stay lists
  if (here.compare_exchange_strong(what, 0, std::memory_order_relaxed)) return;
  node* before = nullptr;
  for (node* one = reinterpret_cast<node*>(what - 1); one != nullptr;
       before = one, one = one->next) {
    if (one->view != &view) continue;
    if (--one->blocks != 0) return;
    if (before != nullptr) {
      before->next = one->next;
    } else {
      node* const next = one->next;
      here.store(next == nullptr ? 0 : reinterpret_cast<std::uint64_t>(next) + 1,
                 std::memory_order_release);  // (P)
    }
    // after the node left the list, so that who comes later cannot meet it, and before it strays
    process_wide.changes = process_wide.changes + 1;
    give_back(*one);
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
    entry* none = nullptr;
    if (!process_wide.leaves[leaf].compare_exchange_strong(none, fresh,
                                                           std::memory_order_acq_rel)) /* (P) */
      type_stable_deallocate(type_stable_use::map_pages, fresh, leaf_size);
  }
  std::uint64_t done = first;
  try {
    for (; done < end; done += map_page) add_to(at(done), view);
  } catch (...) {
    for (std::uint64_t here = first; here < done; here += map_page) remove_from(at(here), view);
    throw;
  }
}

void page_map::remove(chunk_view const& view, std::uint64_t base, bytes size) noexcept {
  std::uint64_t const end = base + size;
  if (!is_known(base, size)) return;
  for (std::uint64_t here = base / map_page * map_page; here < end; here += map_page)
    remove_from(at(here), view);
}

}  // namespace quarry::inline QUARRY_ABI
