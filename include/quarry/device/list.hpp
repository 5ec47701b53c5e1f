// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap_ref.hpp"
#include "quarry/simt/atomic.hpp"

#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A list on a heap that many lanes push to, and any lane takes as a whole. Zeroed memory is an
/// empty list.
///
/// Invariant: from the head, `next` leads through every element that was pushed and not taken, the
/// newest first.
///
/// Any lane may call anything at any time. `push_front` is lock-free: it tries again only if
/// another lane got in between; `pop_all` is one exchange and never waits. Nothing takes a single
/// element: that would follow a node which another lane may have freed, and could mistake a new
/// node at an old address for the old one (the ABA problem). A push that does the latter still
/// links to the head that is there.
///
/// Costs: an allocation and a compare-and-swap of the one head for each element.
///
/// Memory order. (P) publishes a node with release; (T) takes the head with acquire, and pushes in
/// between are RMWs, which continue the release sequences of those before: who pops sees all of
/// every node. (L) orders nothing; (P) decides.
template <class T, class Heap = heap_ref>
class list {
 public:
  struct node {
    T value;
    node* next;
  };

  /// Elements that one lane took: it owns them.
  class chain {
   public:
    QUARRY_HD chain(Heap heap, node* first) : heap_{heap}, first_{first} {}
    QUARRY_HD chain(chain&& other) noexcept
        : heap_{other.heap_}, first_{std::exchange(other.first_, nullptr)} {}
    chain& operator=(chain&&) = delete;
    QUARRY_HD ~chain() {
      while (first_ != nullptr) drop_front();
    }

    [[nodiscard]] QUARRY_HD bool empty() const { return first_ == nullptr; }

    /// The newest one that is left. Requires not to be empty.
    [[nodiscard]] QUARRY_HD T& front() { return first_->value; }

    /// Removes it and frees its memory.
    QUARRY_HD void drop_front() {
      node* const gone = std::exchange(first_, first_->next);
      gone->~node();
      heap_.free(gone);
    }

   private:
    Heap heap_;
    node* first_;
  };

  /// Adds an element made of `arguments`. False, with nothing changed, if there is no memory.
  template <class... Arguments>
  [[nodiscard]] QUARRY_HD bool push_front(Heap const& heap, Arguments&&... arguments) {
    static_assert(alignof(node) <= 16, "the heap aligns to 16 bytes");
    void* const memory = heap.malloc(sizeof(node));
    if (memory == nullptr) return false;
    simt::atomic_ref<node*> const head{head_};
    node* seen = head.load(simt::relaxed);  // (L)
    auto* const fresh = ::new (memory) node{T(std::forward<Arguments>(arguments)...), seen};
    while (!head.compare_exchange(seen, fresh, simt::release)) fresh->next = seen;  // (P)
    return true;
  }

  /// Takes all elements.
  [[nodiscard]] QUARRY_HD chain pop_all(Heap const& heap) {
    simt::atomic_ref<node*> const head{head_};
    return {heap, head.exchange(nullptr, simt::acquire)};  // (T)
  }

 private:
  node* head_ = nullptr;  // atomic
};

}  // namespace quarry::inline QUARRY_ABI
