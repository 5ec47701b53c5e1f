// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/directory.hpp"

#include "process_lists.hpp"

namespace quarry::inline QUARRY_ABI {

directory::node& directory::fresh_node(piece_book const* book, std::uint32_t blocks, node* next) {
  auto& unused = lists_of_process().nodes.unused;
  if (unused == nullptr) {
    bytes const room = lasting_size(1);
    auto* const page = static_cast<node*>(lasting_allocate(lasting_use::granules, room));
    for (bytes i = 0; i < room / sizeof(node); ++i) give_back(page[i]);
  }
  node& fresh = *static_cast<node*>(unused);
  unused = fresh.next;
  fresh.next = next;
  fresh.book = book;
  fresh.blocks = blocks;
  return fresh;
}
void directory::give_back(node& gone) noexcept {
  auto& unused = lists_of_process().nodes.unused;
  gone.book = nullptr;
  gone.next = static_cast<node*>(unused);
  unused = &gone;
}

void directory::add_to(entry& here, piece_book const& book) {
  auto const single = reinterpret_cast<std::uint64_t>(&book);
  for (;;) {
    std::uint64_t what = 0;
    if (here.compare_exchange_strong(what, single, std::memory_order_release,
                                     std::memory_order_relaxed))
      return;  // (P)
    std::lock_guard const held{lists_of_process().nodes.mutex};
    what = here.load(std::memory_order_relaxed);
    if (what == 0) continue;
    if (what % 2 == 1) {
      auto* const head = reinterpret_cast<node*>(what - 1);
      for (node* one = head; one != nullptr; one = one->next) {
        if (one->book == &book) return void(++one->blocks);
      }
      here.store(reinterpret_cast<std::uint64_t>(&fresh_node(&book, 1, head)) + 1,
                 std::memory_order_release);  // (P)
      return;
    }
    node& only =
        fresh_node(reinterpret_cast<piece_book const*>(what), what == single ? 2 : 1, nullptr);
    node* head = &only;
    if (what != single) {
      try {
        head = &fresh_node(&book, 1, &only);
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

void directory::remove_from(entry& here, piece_book const& book) noexcept {
  std::uint64_t what = reinterpret_cast<std::uint64_t>(&book);
  if (here.compare_exchange_strong(what, 0, std::memory_order_relaxed)) return;
  std::lock_guard const held{lists_of_process().nodes.mutex};
  what = reinterpret_cast<std::uint64_t>(&book);
  // never, as long as lists stay lists
  if (here.compare_exchange_strong(what, 0, std::memory_order_relaxed)) return;
  node* before = nullptr;
  for (node* one = reinterpret_cast<node*>(what - 1); one != nullptr;
       before = one, one = one->next) {
    if (one->book != &book) continue;
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

void directory::add(piece_book const& book, std::uint64_t begin, bytes size) {
  std::uint64_t const first = begin / granule * granule;
  std::uint64_t const end = begin + size;
  if (!is_known(begin, size)) return;
  for (std::uint64_t leaf = first / leaf_bytes; leaf <= (end - 1) / leaf_bytes; ++leaf) {
    if (process_wide.leaves[leaf].load(std::memory_order_relaxed) != nullptr) continue;
    constexpr bytes leaf_size = leaf_bytes / granule * sizeof(entry);
    auto* const fresh = static_cast<entry*>(lasting_allocate(lasting_use::granules, leaf_size));
    entry* none = nullptr;
    if (!process_wide.leaves[leaf].compare_exchange_strong(none, fresh,
                                                           std::memory_order_acq_rel)) /* (P) */
      lasting_deallocate(lasting_use::granules, fresh, leaf_size);
  }
  std::uint64_t done = first;
  try {
    for (; done < end; done += granule) add_to(at(done), book);
  } catch (...) {
    for (std::uint64_t here = first; here < done; here += granule) remove_from(at(here), book);
    throw;
  }
}

void directory::remove(piece_book const& book, std::uint64_t begin, bytes size) noexcept {
  std::uint64_t const end = begin + size;
  if (!is_known(begin, size)) return;
  for (std::uint64_t here = begin / granule * granule; here < end; here += granule)
    remove_from(at(here), book);
}

}  // namespace quarry::inline QUARRY_ABI
