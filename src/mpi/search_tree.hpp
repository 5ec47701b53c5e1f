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

/// A treap: a search tree by the order of its nodes, a heap by their priorities. If the priorities
/// are as good as random, a node lies at depth O(log n). No function recurses, since
/// the stack that a kernel needs would be unknown.
///
/// `Order` has these static functions:
///   - `links(node)`: the node's links in this tree;
///   - `is_before(left, right)`;
///   - `priority(node)`;
///   - `update(node)`: derives what the node knows of its subtree from its children.
///
/// Not thread-safe: only one rank uses a tree.
template <class Node, class Order>
class search_tree {
 public:
  [[nodiscard]] QUARRY_HD Node* root() const { return root_; }

  /// Inserts the node behind its equals. O(log n).
  QUARRY_SLOW void insert(Node& added) {
    Node* parent = nullptr;
    Node** link = &root_;
    while (*link != nullptr) {
      parent = *link;
      link = Order::is_before(added, *parent) ? &left(*parent) : &right(*parent);
    }
    *link = &added;
    Order::links(added) = {parent, nullptr, nullptr};
    Order::update(added);
    while (above(added) != nullptr && Order::priority(*above(added)) < Order::priority(added))
      rotate_up(added);
    update_above(added);
  }

  /// Removes a node of the tree. O(log n).
  QUARRY_SLOW void remove(Node& removed) {
    while (left(removed) != nullptr || right(removed) != nullptr) {
      bool const is_left = right(removed) == nullptr ||
                           (left(removed) != nullptr &&
                            Order::priority(*right(removed)) < Order::priority(*left(removed)));
      rotate_up(is_left ? *left(removed) : *right(removed));
    }
    link_to(removed) = nullptr;
    update_above(removed);
  }

  /// The first node for which `is_reached` holds, or null. If it holds for a node, it holds for all
  /// nodes behind that node. O(log n).
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
  [[nodiscard]] QUARRY_HD static Node* next(Node& node) {
    if (Node* found = right(node)) {
      while (left(*found) != nullptr) found = left(*found);
      return found;
    }
    Node* child = &node;
    Node* parent = above(node);
    while (parent != nullptr && right(*parent) == child) {
      child = parent;
      parent = above(*child);
    }
    return parent;
  }

  QUARRY_HD static Node*& above(Node& node) { return Order::links(node).parent; }
  QUARRY_HD static Node*& left(Node& node) { return Order::links(node).left; }
  QUARRY_HD static Node*& right(Node& node) { return Order::links(node).right; }

 private:
  /// The pointer to the node, in its parent or in the tree.
  QUARRY_HD Node*& link_to(Node& node) {
    Node* const parent = above(node);
    return parent == nullptr ? root_ : left(*parent) == &node ? left(*parent) : right(*parent);
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
  QUARRY_HD void update_above(Node& node) {
    for (Node* at = above(node); at != nullptr; at = above(*at)) Order::update(*at);
  }

  Node* root_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
