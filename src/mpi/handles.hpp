// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

#include "quarry/core/bits.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Words behind the entries of a handle_table. They say which entries may be free, so that a search
/// finds the first of them in O(log n).
///
/// The words are a tree in which each node has 64 children: node 0 is the root, and node i has the
/// children 64 i + 1 to 64 i + 64. A bit of a leaf stands for an entry, a bit of another node for a
/// child. Invariants:
///   1. a free entry has its bit; an entry in use may have it, too;
///   2. a bit of a node that is no leaf is 1 just if the child has a bit that is 1.
class free_entries {
 public:
  /// `entries`: their number, at least 1.
  QUARRY_HD free_entries(word* words, std::uint32_t entries) : words_{words} {
    std::uint32_t const leaves = words_for(entries);
    for (std::uint64_t reached = 1; reached < leaves; reached *= bits_per_word)
      first_leaf_ = first_leaf_ * bits_per_word + 1;
  }
  /// How many words so many entries need.
  [[nodiscard]] QUARRY_HD static std::uint32_t words(std::uint32_t entries) {
    return free_entries{nullptr, entries}.first_leaf_ + words_for(entries);
  }

  [[nodiscard]] QUARRY_HD bool is_none() const { return words_[0] == 0; }
  /// The first entry with a bit. There must be one.
  [[nodiscard]] QUARRY_HD std::uint32_t first() const {
    std::uint32_t node = 0;
    while (node < first_leaf_) node = node * bits_per_word + 1 + lowest_one(words_[node]);
    return (node - first_leaf_) * bits_per_word + lowest_one(words_[node]);
  }
  QUARRY_HD void add(std::uint32_t entry) {
    for (position at = position_of(entry);; at = above(at)) {
      word const before = words_[at.node];
      words_[at.node] = before | at.bit;
      if (before != 0 || at.node == 0) return;
    }
  }
  QUARRY_HD void remove(std::uint32_t entry) {
    for (position at = position_of(entry);; at = above(at)) {
      words_[at.node] &= ~at.bit;
      if (words_[at.node] != 0 || at.node == 0) return;
    }
  }

 private:
  struct position {
    std::uint32_t node;
    word bit;
  };
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t words_for(std::uint32_t bits) {
    return (bits + bits_per_word - 1) / bits_per_word;
  }
  [[nodiscard]] QUARRY_HD position position_of(std::uint32_t entry) const {
    return {first_leaf_ + entry / bits_per_word, word{1} << entry % bits_per_word};
  }
  [[nodiscard]] QUARRY_HD static position above(position at) {
    return {(at.node - 1) / bits_per_word, word{1} << (at.node - 1) % bits_per_word};
  }

  word* words_;
  std::uint32_t first_leaf_ = 0;
};

template <class T>
[[nodiscard]] QUARRY_HD free_entries free_entries_of(handle_table<T> const& table) {
  return {reinterpret_cast<word*>(table.entries + table.capacity), table.capacity};
}

/// The index of the first free entry; -1 if there is none. `looks` grows by the number of entries
/// that it has looked at. An entry in use loses its bit, so that n calls of `free_entry` and of
/// this function look at 2 n entries at most, besides those of a new table.
template <class T>
[[nodiscard]] QUARRY_HD std::int32_t first_free(handle_table<T> const& table,
                                                std::uint64_t& looks) {
  if (table.capacity == 0) return -1;
  for (free_entries all = free_entries_of(table); !all.is_none();) {
    std::uint32_t const index = all.first();
    ++looks;
    if (table.entries[index] == nullptr) return static_cast<std::int32_t>(index);
    all.remove(index);
  }
  return -1;
}

/// A table grows up to this many entries, and words behind them.
inline constexpr std::uint32_t most_table_words = std::uint32_t{1} << 30;

/// The index of the first free entry; the table grows if it is full. -1 if the heap has no memory,
/// or if the table would be too large. The entry stays free until the caller stores a pointer
/// there. Amortised O(log n), where the logarithm has the base 64.
template <class T>
[[nodiscard]] QUARRY_HD std::int32_t free_handle(handle_table<T>& table) {
  std::uint64_t looks = 0;
  if (std::int32_t const found = first_free(table, looks); found >= 0) return found;
  std::uint32_t const old = table.capacity;
  std::uint32_t total = 8;  // entries and words: a power of two
  while (total - free_entries::words(total) <= old) total *= 2;
  if (total > most_table_words) return -1;
  std::uint32_t const capacity = total - free_entries::words(total);
  auto** const entries = static_cast<T**>(allocate(total * sizeof(T*)));
  if (entries == nullptr) return -1;
  for (std::uint32_t i = 0; i < capacity; ++i) entries[i] = i < old ? table.entries[i] : nullptr;
  auto* const words = reinterpret_cast<word*>(entries + capacity);
  for (std::uint32_t i = 0; i < total - capacity; ++i) words[i] = 0;
  if (table.entries != nullptr) release(table.entries);
  table = {entries, capacity};
  free_entries all = free_entries_of(table);
  for (std::uint32_t i = old; i < capacity; ++i) all.add(i);
  return static_cast<std::int32_t>(old);
}

template <class T>
QUARRY_HD void free_entry(handle_table<T>& table, std::int32_t index) {
  table.entries[index] = nullptr;
  free_entries_of(table).add(static_cast<std::uint32_t>(index));
}

}  // namespace quarry::inline QUARRY_ABI::mpi
