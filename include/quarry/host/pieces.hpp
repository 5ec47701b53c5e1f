// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace quarry {

/// Which piece: a number that stays the same while the piece lives.
using piece_id = std::uint32_t;
inline constexpr piece_id no_piece = ~piece_id{0};

/// The pieces that a pool's blocks are cut into, as numbers: no byte of the memory that they stand for is read or written.
///
/// A piece is in use or free. A block is one or more pieces, linked in the order of their addresses. Pieces in use are found by
/// their address through a hash table with linear probing.
///
/// Invariants, checked by `audit`: (1) a block's pieces tile it; (2) no two neighbours are both free; (3) the hash table has
/// exactly the pieces in use. (2) holds between calls of the strategy, not of this class.
///
/// Not thread-safe. Costs 32 bytes a piece, and 12 to 23 bytes in the table for one in use. Memory for a piece is got before
/// anything changes (`reserve`), so that what gives memory back needs none.
class piece_table {
 public:
  struct piece {
    std::uint64_t begin;
    bytes size : 62;
    bytes is_free : 1;
    bytes is_set_aside : 1;         // not free, and not a user's: kept whole for the next request of about its size
    piece_id prev, next;            // neighbours in the block
    piece_id link_prev, link_next;  // lists' of pieces that are free or set aside; of one in use what was asked for

    [[nodiscard]] bytes asked() const { return bytes{link_next} << 32 | link_prev; }
    void set_asked(bytes count) {
      link_prev = static_cast<piece_id>(count);
      link_next = static_cast<piece_id>(count >> 32);
    }
  };

  static constexpr bytes most_bytes = (bytes{1} << 62) - 1;  // of a piece

  piece_table() { slots_.resize(16, slot{0, no_piece}); }

  [[nodiscard]] piece& operator[](piece_id id) { return pieces_[id]; }
  [[nodiscard]] piece const& operator[](piece_id id) const { return pieces_[id]; }

  /// Makes room for three more pieces, and one more in use. Throws std::bad_alloc, and has changed nothing then.
  void reserve() {
    if (pieces_.size() + 3 > pieces_.capacity()) pieces_.reserve(pieces_.size() + pieces_.size() / 2 + 64);
    if ((in_use_ + 1) * 10 > slots_.size() * 7) rehash(slots_.size() * 2);
  }

  /// A new free piece. Requires room.
  [[nodiscard]] piece_id add(std::uint64_t begin, bytes size, piece_id prev, piece_id next) {
    piece_id id = unused_;
    if (id != no_piece) {
      unused_ = pieces_[id].next;
    } else {
      id = static_cast<piece_id>(pieces_.size());
      pieces_.emplace_back();
    }
    pieces_[id] = {begin, size & most_bytes, 1, 0, prev, next, no_piece, no_piece};
    return id;
  }
  void remove(piece_id id) {
    pieces_[id].size = 0;
    pieces_[id].next = unused_;
    unused_ = id;
  }

  /// Cuts `id` after `size` bytes; gives the free rest. Requires room, and more than `size` bytes.
  [[nodiscard]] piece_id split(piece_id id, bytes size) {
    piece_id const rest = add(pieces_[id].begin + size, pieces_[id].size - size, id, pieces_[id].next);
    if (pieces_[rest].next != no_piece) pieces_[pieces_[rest].next].prev = rest;
    pieces_[id].next = rest;
    pieces_[id].size = size & most_bytes;
    return rest;
  }
  /// Makes `id` as large as itself and the piece behind it, which is gone then.
  void merge_with_next(piece_id id) {
    piece_id const gone = pieces_[id].next;
    pieces_[id].size = (pieces_[id].size + pieces_[gone].size) & most_bytes;
    pieces_[id].next = pieces_[gone].next;
    if (pieces_[id].next != no_piece) pieces_[pieces_[id].next].prev = id;
    remove(gone);
  }

  /// Ends a block with `id`, of which `size` bytes are left.
  void cut_short(piece_id id, bytes size) {
    pieces_[id].size = size & most_bytes;
    pieces_[id].next = no_piece;
  }

  /// A piece that is a whole block.
  [[nodiscard]] bool is_whole_block(piece_id id) const { return pieces_[id].prev == no_piece && pieces_[id].next == no_piece; }

  /// Says that a free piece is in use now, and what was asked for. Requires room.
  void set_in_use(piece_id id, bytes asked) {
    pieces_[id].is_free = 0;
    pieces_[id].set_asked(asked);
    insert(pieces_[id].begin, id);
    ++in_use_;
  }
  /// Where the table has a piece that is not free.
  struct found {
    piece_id id;
    std::size_t slot;
  };

  /// The piece that begins at `begin` and is not free; `id` is `no_piece` if there is none. O(1) expected.
  [[nodiscard]] found find(std::uint64_t begin) const {
    std::uint64_t const hash = hash_of(begin);
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      slot const& here = slots_[at];
      if (here.id == no_piece) return {no_piece, at};
      if (here.check == check_of(hash) && pieces_[here.id].begin == begin) return {here.id, at};
    }
  }

  /// Says that a piece, which `find` found, is free now.
  void set_free(found const& one) {
    pieces_[one.id].is_free = 1;
    erase(one.slot);
    --in_use_;
  }

  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  /// Bytes of bookkeeping.
  [[nodiscard]] bytes footprint() const { return pieces_.capacity() * sizeof(piece) + slots_.size() * sizeof(slot); }

  /// Calls `visit(id)` for every piece there is.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (piece_id id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id].size != 0) visit(id);
    }
  }

 private:
  struct slot {
    std::uint32_t check;
    piece_id id;
  };

  [[nodiscard]] static std::uint64_t hash_of(std::uint64_t begin) {
    std::uint64_t const mixed = begin * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
  }
  [[nodiscard]] static std::uint32_t check_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  void insert(std::uint64_t begin, piece_id id) {
    std::uint64_t const hash = hash_of(begin);
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != no_piece) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {check_of(hash), id};
  }
  /// Moves later entries of the cluster up, so that no mark is left behind.
  void erase(std::size_t hole) {
    std::size_t const mask = slots_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; slots_[at].id != no_piece; at = (at + 1) & mask) {
      std::size_t const home = hash_of(pieces_[slots_[at].id].begin) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;  // it would come before its home
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].id = no_piece;
  }
  void rehash(std::size_t size) {
    std::vector<slot> larger(size, slot{0, no_piece});
    larger.swap(slots_);
    for (slot const& one : larger) {
      if (one.id != no_piece) insert(pieces_[one.id].begin, one.id);
    }
  }

  std::vector<piece> pieces_;
  std::vector<slot> slots_;
  std::size_t in_use_ = 0;
  piece_id unused_ = no_piece;  // list by `next`
};

}  // namespace quarry
