// SPDX-License-Identifier: Apache-2.0
// Indices of free chunks. An index decides which free chunk serves a request; the arenas differ in
// their index.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/detail/chunk_table.hpp"

#include <array>
#include <set>

namespace quarry::inline QUARRY_ABI {

/// Best fit: the smallest chunk that is large enough. Of chunks of equal size it takes the chunk
/// that became free first (the rule of Umpire's QuickPool). With `ByAddress` it takes the chunk
/// with the lowest address (the rule of Umpire's DynamicPoolList).
///
/// O(log n). Has a node of a std::set for each free chunk, and a spare node for each chunk that is
/// not free, so that frees need no memory.
template <bool ByAddress>
class ordered_index {
 public:
  using chunk_id = detail::chunk_id;
  using chunk_table = detail::chunk_table;
  static constexpr chunk_id no_chunk = detail::no_chunk;

  static constexpr bool needs_room = true;
  /// Makes room for `count` more chunks. If it throws std::bad_alloc, nothing has changed.
  void reserve(std::size_t count) {
    while (spare_.size() < count) spare_.insert(key{0, spares_made_++, no_chunk});
  }
  /// Requires room (`reserve`).
  void insert(chunk_table& table, chunk_id id) {
    auto& chunk = table[id];
    std::uint64_t const order = ByAddress ? chunk.base : next_++;
    auto node = spare_.extract(spare_.begin());
    node.value() = {chunk.size(), order, id};
    chunks_.insert(std::move(node));
    chunk.set_order(order);
  }
  void remove(chunk_table& table, chunk_id id) {
    auto node = chunks_.extract(key_of(table, id));
    node.value() = {0, spares_made_++, no_chunk};
    spare_.insert(std::move(node));
  }
  [[nodiscard]] std::size_t count(chunk_table const&) const { return chunks_.size(); }
  /// Bytes of bookkeeping; an estimate, since the C++ library decides what a node contains in
  /// addition to its key.
  [[nodiscard]] bytes footprint() const {
    return (chunks_.size() + spare_.size()) * (sizeof(key) + 4 * sizeof(void*));
  }
  /// For audits.
  [[nodiscard]] bool contains(chunk_table const& table, chunk_id id) const {
    return chunks_.contains(key_of(table, id));
  }
  /// A chunk of at least `size` bytes, still in the index; `no_chunk` if there is none.
  [[nodiscard]] chunk_id find(chunk_table const&, bytes size) const {
    auto const found = chunks_.lower_bound({size, 0, 0});
    return found == chunks_.end() ? no_chunk : found->id;
  }
  [[nodiscard]] bytes largest(chunk_table const&) const {
    return chunks_.empty() ? 0 : chunks_.rbegin()->size;
  }

 private:
  struct key {
    bytes size;
    std::uint64_t order;
    chunk_id id;
    friend auto operator<=>(key const&, key const&) = default;
  };
  [[nodiscard]] static key key_of(chunk_table const& table, chunk_id id) {
    auto const& chunk = table[id];
    return {chunk.size(), chunk.order(), id};
  }

  using nodes = std::set<key>;
  nodes chunks_;
  // spare nodes for chunks that become free: moving a node between the sets needs no memory
  nodes spare_;
  std::uint64_t next_ = 0;
  std::uint64_t spares_made_ = 0;
};

using oldest_best_fit = ordered_index<false>;
using lowest_best_fit = ordered_index<true>;

/// Segregated fit: a chunk of the first list in which all chunks are large enough. The sizes of a
/// list are less than a thirty-second apart. Bits say which lists have chunks (Masmano et al.,
/// "TLSF: a new dynamic memory allocator for real-time systems", 2004).
///
/// O(1); needs no memory after its construction. In a list with sizes below and above the request,
/// a chunk is found only if it is the first of the list.
class segregated_fit {
 public:
  using chunk_id = detail::chunk_id;
  using chunk_table = detail::chunk_table;
  static constexpr chunk_id no_chunk = detail::no_chunk;

  static constexpr bool needs_room = false;
  segregated_fit() { heads_.fill(detail::single_writer<chunk_id>{no_chunk}); }

  void reserve(std::size_t) {}

  // Without branches: whether a chunk is the first or the last of its list cannot be predicted.
  void insert(chunk_table& table, chunk_id id) {
    auto& chunk = table[id];
    std::uint32_t const list = list_of(chunk.size());
    chunk_id const next = heads_[list];
    chunk.prev_free() = no_chunk;
    chunk.next_free() = next;
    *(next != no_chunk ? &table[next].prev_free() : &unread_) = id;
    heads_[list] = id;
    filled_[list / bits_per_word] |= word{1} << list % bits_per_word;
    words_ |= word{1} << list / bits_per_word;
  }
  void remove(chunk_table& table, chunk_id id) {
    auto const& chunk = table[id];
    std::uint32_t const list = list_of(chunk.size());
    chunk_id const next = chunk.next_free();
    chunk_id const prev = chunk.prev_free();
    *(next != no_chunk ? &table[next].prev_free() : &unread_) = prev;
    *(prev != no_chunk ? &table[prev].next_free() : &heads_[list]) = next;
    word const is_empty = heads_[list] == no_chunk;
    word& filled = filled_[list / bits_per_word];
    filled &= ~(is_empty << list % bits_per_word);
    words_ &= ~(word{filled == 0} << list / bits_per_word);
  }
  /// For audits: O(chunks).
  [[nodiscard]] std::size_t count(chunk_table const& table) const {
    std::size_t sum = 0;
    for (chunk_id const head : heads_) {
      for (chunk_id id = head; id != no_chunk; id = table[id].next_free()) ++sum;
    }
    return sum;
  }
  [[nodiscard]] bytes footprint() const { return 0; }  // the lists are part of the arena
  /// For audits: O(chunks of that size).
  [[nodiscard]] bool contains(chunk_table const& table, chunk_id id) const {
    chunk_id listed = heads_[list_of(table[id].size())];
    while (listed != no_chunk && listed != id) listed = table[listed].next_free();
    return listed == id;
  }
  /// A chunk of at least `size` bytes, still in the index; `no_chunk` if there is none.
  [[nodiscard]] chunk_id find(chunk_table const& table, bytes size) const {
    std::uint32_t const first = list_of(size);
    if (heads_[first] != no_chunk && table[heads_[first]].size() >= size) return heads_[first];
    std::uint32_t const list = next_filled(first + 1);
    return list == lists ? no_chunk : heads_[list];
  }
  /// Any chunk in the index; `no_chunk` if it is empty.
  [[nodiscard]] chunk_id any() const {
    return words_ == 0 ? no_chunk
                       : chunk_id{heads_[lowest_one(words_) * bits_per_word +
                                         lowest_one(filled_[lowest_one(words_)])]};
  }
  /// The size of the first chunk in the list of the largest chunks.
  [[nodiscard]] bytes largest(chunk_table const& table) const {
    if (words_ == 0) return 0;
    std::uint32_t const word_index = highest_one(words_);
    return table[heads_[word_index * bits_per_word + highest_one(filled_[word_index])]].size();
  }

 private:
  static constexpr std::uint32_t step_bits = 5;
  static constexpr std::uint32_t size_bits = 48;  // of chunks
  static constexpr std::uint32_t lists = (size_bits + 1 - step_bits) << step_bits;

  /// Each size below 64 has a list; above, each power of two has 32 lists.
  [[nodiscard]] static std::uint32_t list_of(bytes size) {
    std::uint32_t const shift = highest_one(size | 63) - step_bits;
    return (shift << step_bits) + static_cast<std::uint32_t>(size >> shift);
  }
  /// The first list with chunks whose number is at least `list`; `lists` if there is none.
  [[nodiscard]] std::uint32_t next_filled(std::uint32_t list) const {
    std::uint32_t const index = list / bits_per_word;
    if (index >= filled_.size()) return lists;
    word const candidates = filled_[index] & ~low_bits(list % bits_per_word);
    if (candidates != 0) return index * bits_per_word + lowest_one(candidates);
    word const later = words_ & ~low_bits(index + 1);
    return later == 0 ? lists
                      : lowest_one(later) * bits_per_word + lowest_one(filled_[lowest_one(later)]);
  }

  std::array<detail::single_writer<chunk_id>, lists> heads_;
  std::array<word, (lists + bits_per_word - 1) / bits_per_word> filled_{};
  word words_ = 0;                                    // bit i: filled_[i] is not 0
  detail::single_writer<chunk_id> unread_{no_chunk};  // is written, and never read
};

}  // namespace quarry::inline QUARRY_ABI
