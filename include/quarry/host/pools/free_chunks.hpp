// SPDX-License-Identifier: Apache-2.0
// Which free chunk serves a request: what the strategies differ in.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/registry/chunks.hpp"

#include <array>
#include <set>

namespace quarry::inline QUARRY_ABI {

/// The smallest chunk that is large enough; among equals the one that became free first (the rule
/// of Umpire's QuickPool), or with `ByAddress` the one with the lowest address (of its
/// DynamicPoolList).
///
/// O(log n). A node of a std::set for each free chunk, and one in reserve for each chunk in use, so
/// that freeing needs no memory.
template <bool ByAddress>
class ordered_index {
 public:
  /// Makes room for so many more chunks. Throws std::bad_alloc, and has changed nothing then.
  void reserve(std::size_t count) {
    while (spare_.size() < count) spare_.insert(key{0, spares_made_++, no_chunk});
  }
  /// Requires room.
  void insert(chunk_table& table, chunk_id id) {
    auto& chunk = table[id];
    std::uint64_t const order = ByAddress ? chunk.base : next_++;
    auto node = spare_.extract(spare_.begin());
    node.value() = {chunk.size(), order, id};
    chunks_.insert(std::move(node));
    chunk.link_prev = static_cast<chunk_id>(order);
    chunk.link_next = static_cast<chunk_id>(order >> 32);
  }
  void remove(chunk_table& table, chunk_id id) {
    auto node = chunks_.extract(key_of(table, id));
    node.value() = {0, spares_made_++, no_chunk};
    spare_.insert(std::move(node));
  }
  [[nodiscard]] std::size_t count(chunk_table const&) const { return chunks_.size(); }
  /// Bytes of bookkeeping, as far as can be told: what a node has beside its key is the library's.
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
    return {chunk.size(), std::uint64_t{chunk.link_next} << 32 | chunk.link_prev, id};
  }

  using nodes = std::set<key>;
  nodes chunks_;
  // for chunks that become free; moved from one set to the other, nodes need no memory
  nodes spare_;
  std::uint64_t next_ = 0;
  std::uint64_t spares_made_ = 0;
};

using oldest_best_fit = ordered_index<false>;
using lowest_best_fit = ordered_index<true>;

/// A chunk of the first list in which all are large enough: lists of sizes less than a
/// thirty-second apart, and bits that say which lists have any (Masmano et al., "TLSF: a new
/// dynamic memory allocator for real-time systems", 2004).
///
/// O(1), and needs no memory after its construction. A chunk that just fits, but lies in a list
/// where not all do, is found only if it is the first of that list.
class segregated_fit {
 public:
  segregated_fit() { heads_.fill(single_writer<chunk_id>{no_chunk}); }

  void reserve(std::size_t) {}

  // Without a branch: whether a chunk is the first or the last of its list cannot be foreseen.
  void insert(chunk_table& table, chunk_id id) {
    auto& chunk = table[id];
    std::uint32_t const list = list_of(chunk.size());
    chunk_id const next = heads_[list];
    chunk.link_prev = no_chunk;
    chunk.link_next = next;
    *(next != no_chunk ? &table[next].link_prev : &nobody_) = id;
    heads_[list] = id;
    filled_[list / bits_per_word] |= word{1} << list % bits_per_word;
    words_ |= word{1} << list / bits_per_word;
  }
  void remove(chunk_table& table, chunk_id id) {
    auto const& chunk = table[id];
    std::uint32_t const list = list_of(chunk.size());
    chunk_id const next = chunk.link_next;
    chunk_id const prev = chunk.link_prev;
    *(next != no_chunk ? &table[next].link_prev : &nobody_) = prev;
    *(prev != no_chunk ? &table[prev].link_next : &heads_[list]) = next;
    word const is_empty = heads_[list] == no_chunk;
    word& filled = filled_[list / bits_per_word];
    filled &= ~(is_empty << list % bits_per_word);
    words_ &= ~(word{filled == 0} << list / bits_per_word);
  }
  /// For audits: O(chunks).
  [[nodiscard]] std::size_t count(chunk_table const& table) const {
    std::size_t sum = 0;
    for (chunk_id const head : heads_) {
      for (chunk_id id = head; id != no_chunk; id = table[id].link_next) ++sum;
    }
    return sum;
  }
  [[nodiscard]] bytes footprint() const { return 0; }  // is a part of the strategy
  /// For audits: O(chunks of that size).
  [[nodiscard]] bool contains(chunk_table const& table, chunk_id id) const {
    chunk_id at = heads_[list_of(table[id].size())];
    while (at != no_chunk && at != id) at = table[at].link_next;
    return at == id;
  }
  /// A chunk of at least `size` bytes, still in the index; `no_chunk` if there is none.
  [[nodiscard]] chunk_id find(chunk_table const& table, bytes size) const {
    std::uint32_t const own = list_of(size);
    if (heads_[own] != no_chunk && table[heads_[own]].size() >= size) return heads_[own];
    std::uint32_t const list = next_filled(own + 1);
    return list == lists ? no_chunk : heads_[list];
  }
  /// One that is in the index; `no_chunk` if none is.
  [[nodiscard]] chunk_id any() const {
    return words_ == 0 ? no_chunk
                       : chunk_id{heads_[lowest_one(words_) * bits_per_word +
                                         lowest_one(filled_[lowest_one(words_)])]};
  }
  /// Of the largest chunks' list the first.
  [[nodiscard]] bytes largest(chunk_table const& table) const {
    if (words_ == 0) return 0;
    std::uint32_t const word_index = highest_one(words_);
    return table[heads_[word_index * bits_per_word + highest_one(filled_[word_index])]].size();
  }

 private:
  static constexpr std::uint32_t step_bits = 5;
  static constexpr std::uint32_t size_bits = 48;  // of chunks
  static constexpr std::uint32_t lists = (size_bits + 1 - step_bits) << step_bits;

  /// Sizes below 64 have a list each; from there on each power of two has 32.
  [[nodiscard]] static std::uint32_t list_of(bytes size) {
    std::uint32_t const shift = highest_one(size | 63) - step_bits;
    return (shift << step_bits) + static_cast<std::uint32_t>(size >> shift);
  }
  /// The first list that has any, from `list` on.
  [[nodiscard]] std::uint32_t next_filled(std::uint32_t list) const {
    std::uint32_t const index = list / bits_per_word;
    if (index >= filled_.size()) return lists;
    word const here = filled_[index] & ~low_bits(list % bits_per_word);
    if (here != 0) return index * bits_per_word + lowest_one(here);
    word const later = words_ & ~low_bits(index + 1);
    return later == 0 ? lists
                      : lowest_one(later) * bits_per_word + lowest_one(filled_[lowest_one(later)]);
  }

  std::array<single_writer<chunk_id>, lists> heads_;
  std::array<word, (lists + bits_per_word - 1) / bits_per_word> filled_{};
  word words_ = 0;                            // which of `filled_` are not zero
  single_writer<chunk_id> nobody_{no_chunk};  // is written, and never read
};

}  // namespace quarry::inline QUARRY_ABI
