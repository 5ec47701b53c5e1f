// SPDX-License-Identifier: Apache-2.0
// The requests of programs that quarry-mpicc --check made, by number and by the bytes they use.
#pragma once

#include "search_tree.hpp"
#include "used_bytes.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a request stands for.
enum class begun_operation : std::uint32_t { send, receive, collective, exchange, generalized };

/// A buffer of an operation: elements, or several parts.
struct used_buffer {
  used_elements only;              // if there are no `parts`
  used_elements* parts = nullptr;  // the entry owns the memory; null: `only`
  bytes count = 0;                 // of `parts`
  bool is_sorted = false;          // the parts do not overlap and are in the order of addresses
};

/// A request that the program has got and not completed, or a persistent one that it has not freed.
/// One with several buffers has several entries with its number, of which one stands for it.
struct open_request {
  MPI_Request handle;  // the runtime's
  std::uint32_t number;
  std::uint32_t place;  // where it began, or a persistent request that has not begun was made
  std::uint32_t made_at;
  begun_operation what;
  used_buffer used;
  byte_span span;  // of all bytes of the buffer; if it has none, the end is not behind the begin
  std::uint64_t hash;  // of a buffer that others may read, when the operation began
  bool writes;         // the operation writes the buffer
  bool is_further;     // another entry stands for the request
  bool is_persistent;
  bool is_active = false;  // the operation has begun
  tree_links<open_request> by_number = {};
  tree_links<open_request> by_bytes = {};  // if the operation has begun and the buffer has bytes
  std::int64_t last_end = 0;               // of the spans of the subtree in that tree
};

/// A rank's entries. Each function takes O(log n) of n entries, or says what else.
class open_requests {
 public:
  [[nodiscard]] QUARRY_HD bool is_empty() const { return numbers_.root() == nullptr; }

  /// The first entry of all, and of a request; null if there is none. Entries come in the order of
  /// their numbers. Of a request the one that stands for it is the first.
  [[nodiscard]] QUARRY_HD open_request* first() const {
    return numbers_.first([](open_request const&) { return true; });
  }
  [[nodiscard]] QUARRY_HD open_request* first_of(std::uint32_t number) const {
    open_request* const found =
        numbers_.first([&](open_request const& each) { return each.number >= number; });
    return found != nullptr && found->number == number ? found : nullptr;
  }
  /// The next entry of all, and of the same request.
  [[nodiscard]] QUARRY_HD static open_request* next(open_request& entry) {
    return number_tree::next(entry);
  }
  [[nodiscard]] QUARRY_HD static open_request* next_of(open_request& entry) {
    open_request* const found = next(entry);
    return found != nullptr && found->number == entry.number ? found : nullptr;
  }

  QUARRY_SLOW void add(open_request& added) { numbers_.insert(added); }
  QUARRY_SLOW void remove(open_request& removed) {
    set_active(removed, false);
    numbers_.remove(removed);
  }

  /// `is_active`: from now on an operation in progress uses the entry's bytes. Else none does.
  QUARRY_SLOW void set_active(open_request& entry, bool is_active) {
    if (entry.is_active == is_active) return;
    entry.is_active = is_active;
    if (entry.span.begin >= entry.span.end) return;
    byte_tree& tree = entry.writes ? written_ : read_;
    if (is_active) {
      tree.insert(entry);
    } else {
      tree.remove(entry);
    }
  }

  /// The first entry for which `is_wanted` holds, of operations in progress that write their bytes,
  /// or that only read them, and whose span has a byte of `asked`. Null if there is none.
  /// O(log n + k log n) if `is_wanted` does not hold for k entries.
  template <class IsWanted>
  [[nodiscard]] QUARRY_HD open_request* first_touching(byte_span const& asked, bool writes,
                                                       IsWanted const& is_wanted) const {
    open_request* at = first_in((writes ? written_ : read_).root(), asked);
    while (at != nullptr && !is_wanted(*at)) at = next_touching(*at, asked);
    return at;
  }

 private:
  struct number_order {
    QUARRY_HD static tree_links<open_request>& links(open_request& entry) {
      return entry.by_number;
    }
    QUARRY_HD static bool is_before(open_request const& left, open_request const& right) {
      return left.number < right.number;
    }
    QUARRY_HD static std::uint32_t priority(open_request const& entry) {
      return mixed_bits(entry.number);
    }
    QUARRY_HD static void update(open_request const&) {}
  };
  struct byte_order {
    QUARRY_HD static tree_links<open_request>& links(open_request& entry) { return entry.by_bytes; }
    QUARRY_HD static bool is_before(open_request const& left, open_request const& right) {
      return left.span.begin < right.span.begin;
    }
    QUARRY_HD static std::uint32_t priority(open_request const& entry) {
      return mixed_bits(entry.number);
    }
    QUARRY_HD static void update(open_request& entry) {
      entry.last_end = entry.span.end;
      for (open_request const* const child : {entry.by_bytes.left, entry.by_bytes.right})
        if (child != nullptr && child->last_end > entry.last_end) entry.last_end = child->last_end;
    }
  };
  using number_tree = search_tree<open_request, number_order>;
  using byte_tree = search_tree<open_request, byte_order>;

  [[nodiscard]] QUARRY_HD static bool reaches(open_request const* subtree, byte_span const& asked) {
    return subtree != nullptr && subtree->last_end > asked.begin;
  }
  [[nodiscard]] QUARRY_HD static bool touches(open_request const& entry, byte_span const& asked) {
    return entry.span.begin < asked.end && asked.begin < entry.span.end;
  }
  /// The first entry of a subtree that has one of the bytes. If spans on the left end behind the
  /// first byte and none of them touches, they begin behind the last one, and so do all others.
  [[nodiscard]] QUARRY_HD static open_request* first_in(open_request* at, byte_span const& asked) {
    while (reaches(at, asked)) {
      if (reaches(at->by_bytes.left, asked)) {
        at = at->by_bytes.left;
      } else if (touches(*at, asked)) {
        return at;
      } else if (at->span.begin < asked.end) {
        at = at->by_bytes.right;
      } else {
        return nullptr;
      }
    }
    return nullptr;
  }
  [[nodiscard]] QUARRY_HD static open_request* next_touching(open_request& entry,
                                                             byte_span const& asked) {
    if (open_request* const found = first_in(entry.by_bytes.right, asked)) return found;
    open_request* child = &entry;
    open_request* at = entry.by_bytes.parent;
    for (; at != nullptr; child = at, at = at->by_bytes.parent) {
      if (at->by_bytes.right == child) continue;
      if (touches(*at, asked)) return at;
      if (at->span.begin >= asked.end) return nullptr;
      if (open_request* const found = first_in(at->by_bytes.right, asked)) return found;
    }
    return nullptr;
  }

  number_tree numbers_;
  byte_tree written_;  // operations in progress that write their bytes
  byte_tree read_;     // others in progress
};

}  // namespace quarry::inline QUARRY_ABI::mpi
