// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap_ref.hpp"
#include "quarry/simt/atomic.hpp"

#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A list on a heap. Many lanes push elements; any lane removes all elements at once. Zeroed memory
/// is an empty list.
///
/// Invariant: starting at the head, `next` visits every element that was pushed and not removed,
/// the newest first.
///
/// Any lane may call any function at any time. `push_front` is lock-free: it retries only if
/// another lane changed the head meanwhile. `pop_all` is one exchange and never waits.
///
/// No function removes a single element. It would follow a node that another lane may have freed,
/// and could mistake a new node at an old address for the old node (the ABA problem). The same
/// mistake in a push is harmless: the push still links to the current head.
///
/// Costs: one allocation and one compare-and-swap of the shared head per element.
///
///   label  statement                     partner  guarantee
///   (P)    publishes a node, release     (T)      pushes in between are RMWs and continue the
///   (T)    takes all nodes, acquire      (P)      release sequence, so every node is complete
///   (L)    reads the head; (P) decides            none
template <class T, class Heap = heap_ref>
class list {
 public:
  struct node {
    T value;
    node* next;
  };

  /// The elements that one lane removed from the list. The chain owns them.
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

    /// The newest remaining element. The chain must not be empty.
    [[nodiscard]] QUARRY_HD T& front() { return first_->value; }

    /// Removes the newest element and frees its memory.
    QUARRY_HD void drop_front() {
      node* const removed = std::exchange(first_, first_->next);
      removed->~node();
      heap_.free(removed);
    }

   private:
    Heap heap_;
    node* first_;
  };

  /// Adds an element constructed from `arguments`. Returns false and changes nothing if there is no
  /// memory.
  template <class... Arguments>
  [[nodiscard]] QUARRY_HD bool push_front(Heap const& heap, Arguments&&... arguments) {
    static_assert(alignof(node) <= 16, "the heap aligns to 16 bytes");
    void* const memory = heap.malloc(sizeof(node));
    if (memory == nullptr) return false;
    simt::atomic_ref<node*> const head{head_};
    node* current = head.load(simt::relaxed);  // (L)
    auto* const fresh = ::new (memory) node{T(std::forward<Arguments>(arguments)...), current};
    while (!head.compare_exchange(current, fresh, simt::release)) fresh->next = current;  // (P)
    return true;
  }

  /// Removes all elements and returns them.
  [[nodiscard]] QUARRY_HD chain pop_all(Heap const& heap) {
    simt::atomic_ref<node*> const head{head_};
    return {heap, head.exchange(nullptr, simt::acquire)};  // (T)
  }

 private:
  node* head_ = nullptr;  // atomic
};

}  // namespace quarry::inline QUARRY_ABI
