// SPDX-License-Identifier: Apache-2.0
// A search tree whose nodes belong to its user.
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

template <class Node>
struct tree_links {
  Node* parent = nullptr;
  Node* left = nullptr;
  Node* right = nullptr;
};

/// A number whose bits depend on all bits of `key`: a priority that is the same in each run.
[[nodiscard]] QUARRY_HD inline std::uint32_t mixed_bits(std::uint32_t key) {
  std::uint32_t mixed = (key + 1) * 0x9e3779b9;
  mixed = (mixed ^ mixed >> 16) * 0x85ebca6b;
  return mixed ^ mixed >> 13;
}

/// A treap: a search tree by the order of its nodes, a heap by their priorities. If these are as
/// good as random, a node lies at depth O(log n). Recursion would need a stack that no GPU knows.
///
/// `Order` has these static functions:
///   - `links(node)`: the node's links in this tree;
///   - `is_before(left, right)`;
///   - `priority(node)`;
///   - `update(node)`: derives what the node knows of its subtree from its children.
///
/// Not thread-safe: one rank has it.
template <class Node, class Order>
class search_tree {
 public:
  [[nodiscard]] QUARRY_HD Node* root() const { return root_; }

  /// Behind nodes that are neither before nor behind it. O(log n).
  QUARRY_SLOW void insert(Node& made) {
    Node* parent = nullptr;
    Node** link = &root_;
    while (*link != nullptr) {
      parent = *link;
      link = Order::is_before(made, *parent) ? &left(*parent) : &right(*parent);
    }
    *link = &made;
    Order::links(made) = {parent, nullptr, nullptr};
    Order::update(made);
    while (above(made) != nullptr && Order::priority(*above(made)) < Order::priority(made))
      rotate_up(made);
    update_above(made);
  }

  /// The node is in the tree. O(log n).
  QUARRY_SLOW void remove(Node& gone) {
    while (left(gone) != nullptr || right(gone) != nullptr) {
      bool const is_left =
          right(gone) == nullptr ||
          (left(gone) != nullptr && Order::priority(*right(gone)) < Order::priority(*left(gone)));
      rotate_up(is_left ? *left(gone) : *right(gone));
    }
    link_to(gone) = nullptr;
    update_above(gone);
  }

  /// The first node for which `is_reached` holds; it holds for all nodes behind that. Null if there
  /// is none. O(log n).
  template <class IsReached>
  [[nodiscard]] QUARRY_HD Node* first(IsReached const& is_reached) const {
    Node* found = nullptr;
    for (Node* at = root_; at != nullptr;) {
      if (is_reached(*at)) {
        found = at;
        at = left(*at);
      } else {
        at = right(*at);
      }
    }
    return found;
  }

  /// The node behind this one, or null. O(log n); O(n) for all nodes one after another.
  [[nodiscard]] QUARRY_HD static Node* next(Node& of) {
    if (Node* found = right(of)) {
      while (left(*found) != nullptr) found = left(*found);
      return found;
    }
    Node* child = &of;
    Node* parent = above(of);
    while (parent != nullptr && right(*parent) == child) {
      child = parent;
      parent = above(*child);
    }
    return parent;
  }

  QUARRY_HD static Node*& above(Node& of) { return Order::links(of).parent; }
  QUARRY_HD static Node*& left(Node& of) { return Order::links(of).left; }
  QUARRY_HD static Node*& right(Node& of) { return Order::links(of).right; }

 private:
  /// The pointer to the node.
  QUARRY_HD Node*& link_to(Node& of) {
    Node* const parent = above(of);
    return parent == nullptr ? root_ : left(*parent) == &of ? left(*parent) : right(*parent);
  }
  /// Lets the node and its parent change places.
  QUARRY_HD void rotate_up(Node& child) {
    Node& parent = *above(child);
    bool const is_left = left(parent) == &child;
    Node*& inner = is_left ? right(child) : left(child);
    link_to(parent) = &child;
    above(child) = above(parent);
    (is_left ? left(parent) : right(parent)) = inner;
    if (inner != nullptr) above(*inner) = &parent;
    inner = &parent;
    above(parent) = &child;
    Order::update(parent);
    Order::update(child);
  }
  QUARRY_HD void update_above(Node& of) {
    for (Node* at = above(of); at != nullptr; at = above(*at)) Order::update(*at);
  }

  Node* root_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
