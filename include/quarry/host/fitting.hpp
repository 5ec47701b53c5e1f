// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/aside_lists.hpp"
#include "quarry/host/free_index.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The strategy of pools that cut blocks into pieces: `Index` picks the free piece, the rest is
/// split off, and free neighbours are merged.
///
/// With `SetsAside`, pieces that are freed are set aside whole, for the next request that they
/// fit with at most an eighth of waste. They are freed in earnest before a block is asked for or
/// given up; until then they count as in use where blocks are counted. So most requests neither
/// split nor merge. Where sizes do not come back, that saves little and scatters what is free.
/// So if setting aside did not pay (aside_lists), nothing is set aside during the next 128 frees
/// for each piece that nobody had taken again, 32,768 at most.
///
/// Deals in addresses and never touches memory, so that a live pool, a replay and a fuzzer run the
/// same code. Not thread-safe: its pool locks. Sizes are multiples of the pool's alignment.
/// Invariants, checked by `audit`: those of piece_table; and (4) the index has exactly the free
/// pieces; (5) the counts of bytes and of releasable blocks are right.
template <class Index, bool SetsAside = false>
class fitting {
 public:
  /// `alignment`: a power of two, of which all sizes are multiples.
  explicit fitting(bytes alignment = 16)
      : aside_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {}

  struct block {
    std::uint64_t begin;
    bytes size;
  };
  static constexpr bool sets_aside = SetsAside;

  /// From now on nothing is set aside: for who looks at the counts of blocks after each free.
  void set_nothing_aside() {
    sets_aside_ = cuts_whole_ = false;
    frees_to_rest_ = 0;
  }

  /// What a user may use of a piece, and what the piece holds.
  struct sizes {
    bytes asked = 0;
    bytes rounded = 0;  // never 0 but for none
    explicit operator bool() const { return rounded != 0; }
  };

  /// Where a piece begins that was set aside and serves `size`, at a multiple of `alignment`;
  /// nothing if none is found.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_aside(sizes size, bytes alignment = 1) {
    if constexpr (!SetsAside) return std::nullopt;
    piece_id const id = aside_.take(pieces_, size.rounded, alignment);
    if (id == no_piece) return std::nullopt;
    auto const again = pieces_.set_in_use_again(id, size.asked);
    in_use_ += again.size;
    return again.begin;
  }

  /// A piece of `size.rounded` bytes, or nothing: then a block is needed. Throws std::bad_alloc if
  /// there is no memory for bookkeeping.
  [[nodiscard]] std::optional<std::uint64_t> allocate(sizes size) {
    if (auto const begin = allocate_from_aside(size)) return begin;
    return allocate_from_free(size);
  }
  /// The same, for who has asked for what was set aside.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_free(sizes size) {
    reserve();
    piece_id id = index_.find(pieces_, size.rounded);
    if (id == no_piece && aside_.count() != 0) {
      free_what_is_aside();
      id = index_.find(pieces_, size.rounded);
    }
    if (id == no_piece) return std::nullopt;
    remove_free(id);
    return take(id, size);
  }

  /// The same out of a block in which nothing is in use, though an index may have missed it.
  /// Requires room (`reserve`). O(blocks).
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_empty_block(sizes size) {
    for (piece_id const id : blocks_) {
      if (!pieces_[id].is_free() || !pieces_.is_whole_block(id) ||
          pieces_[id].size() < size.rounded)
        continue;
      remove_free(id);
      return take(id, size);
    }
    return std::nullopt;
  }

  /// A piece of exactly `size` bytes at a multiple of `alignment`, which is more than that of all
  /// pieces, `least`, out of what is free in earnest; or nothing. It is no allocation for those who
  /// look (piece::by_no_user). Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint64_t> allocate_for_slices(bytes size, bytes alignment,
                                                                 bytes least) {
    reserve();
    piece_id const id = index_.find(pieces_, size + alignment - least);
    if (id == no_piece) return std::nullopt;
    remove_free(id);
    std::uint64_t const begin = take(id, {piece::by_no_user, size + alignment - least});
    try {
      reserve();
    } catch (...) {
      (void)deallocate(begin);
      throw;
    }
    return trim(begin, {piece::by_no_user, size}, alignment);
  }

  /// Keeps of a piece in use, which `allocate` gave for more than `size`, what lies behind the
  /// first multiple of `alignment` and serves `size`: where that begins. The rest is free. Requires
  /// room (`reserve`), and that nobody took note of the piece.
  [[nodiscard]] std::uint64_t trim(std::uint64_t begin, sizes size, bytes alignment) {
    auto const found = pieces_.find(begin);
    piece_id id = found.id;
    in_use_ -= pieces_[id].size();
    pieces_.set_free(found);
    bytes const before = ((begin + alignment - 1) & ~(alignment - 1)) - begin;
    piece_id const front = id;
    if (before != 0) id = pieces_.split(front, before);
    bytes const cut = size_of_cut(size.rounded);
    piece_id const behind = pieces_[id].size() > cut ? pieces_.split(id, cut) : no_piece;
    pieces_.set_in_use(id, size.asked);
    in_use_ += pieces_[id].size();
    if (before != 0) insert_merged(front);
    if (behind != no_piece) insert_merged(behind);
    return pieces_[id].begin;
  }

  /// The size of the piece that is cut for `rounded` bytes where there is room: set aside, it is
  /// found again for them.
  [[nodiscard]] bytes size_of_cut(bytes rounded) const {
    return SetsAside && cuts_whole_ ? aside_.whole(rounded) : rounded;
  }

  /// Takes over a block that is large enough, and allocates a piece of it. Requires room
  /// (`reserve`).
  [[nodiscard]] std::uint64_t allocate_in(block const& fresh, sizes size) {
    piece_id const id = pieces_.add(fresh.begin, fresh.size, no_piece, no_piece);
    blocks_.push_back(id);
    held_ += fresh.size;
    return take(id, size);
  }
  /// Makes room for three blocks and for an allocation. Throws std::bad_alloc, and has changed
  /// nothing then.
  void reserve() {
    pieces_.reserve();
    // what is in use may become free, and a fresh block's rest
    index_.reserve(pieces_.in_use() + 4);
    if (blocks_.size() + 3 > blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
  }

  /// Sets aside what `allocate` gave. What was asked for; or nothing, and nothing is changed, if it
  /// takes more than that: `deallocate`, then.
  [[nodiscard]] std::optional<bytes> deallocate_aside(std::uint64_t begin) {
    if (!SetsAside || !sets_aside_) return std::nullopt;
    auto const found = pieces_.find(begin);
    if (found.id == no_piece) return std::nullopt;
    auto& piece = pieces_[found.id];
    auto const state = piece.get();
    if (state.has_flags()) return std::nullopt;
    return put_aside(piece, found, state).asked;
  }
  /// Frees what `allocate` gave. Its size; or none, and nothing is changed, if `begin` is not
  /// in use. Calls `on_noted()` if it had a note.
  template <class OnNoted>
  sizes deallocate(std::uint64_t begin, OnNoted const& on_noted) {
    auto const found = pieces_.find(begin);
    if (found.id == no_piece) return {};
    auto& piece = pieces_[found.id];
    auto const state = piece.get();
    if (state.is_set_aside()) return {};
    if (state.is_noted()) on_noted();
    if (SetsAside && sets_aside_) return put_aside(piece, found, state);
    sizes const size{piece.asked(), state.size()};
    in_use_ -= size.rounded;
    free_in_earnest(found);
    if (frees_to_rest_ != 0 && --frees_to_rest_ == 0) sets_aside_ = true;
    return size;
  }
  sizes deallocate(std::uint64_t begin) {
    return deallocate(begin, [] {});
  }

  /// Gives up the blocks in which nothing is in use, as long as `least_held` bytes are held without
  /// them: calls `give_back(block)` for each, oldest first. It may call this strategy again.
  template <class GiveBack>
  void release(GiveBack const& give_back, bytes least_held = 0) {
    constexpr std::size_t most_at_once = 64;
    block gone[most_at_once];
    std::size_t count = 0;
    do {
      free_what_is_aside();
      count = 0;
      std::erase_if(blocks_, [&](piece_id id) {
        if (count == most_at_once || !pieces_[id].is_free() || !pieces_.is_whole_block(id) ||
            held_ - pieces_[id].size() < least_held)
          return false;
        gone[count++] = {pieces_[id].begin, pieces_[id].size()};
        held_ -= pieces_[id].size();
        remove_free(id);
        pieces_.remove(id);
        return true;
      });
      for (std::size_t i = 0; i < count; ++i) give_back(gone[i]);
    } while (count == most_at_once);
  }

  /// Cuts whole pages of `page` bytes out of free pieces, `most` bytes at most, and calls
  /// `each(begin, size)` for what came out of one piece: the strategy has it no more, and what lay
  /// beside it are blocks of their own. If `each` throws, that piece stays. Throws std::bad_alloc.
  /// O(pieces).
  template <class Each>
  void carve(bytes page, bytes most, Each const& each) {
    free_what_is_aside();
    most &= ~(page - 1);
    struct tidy {
      std::vector<piece_id>& blocks;
      ~tidy() { std::erase(blocks, no_piece); }
    } const at_the_end{blocks_};
    for (std::size_t i = 0; i < blocks_.size() && most != 0; ++i) {
      for (piece_id id = blocks_[i]; id != no_piece; id = pieces_[id].next) {
        if (!pieces_[id].is_free()) continue;
        std::uint64_t const begin = (pieces_[id].begin + page - 1) & ~(page - 1);
        std::uint64_t const end = (pieces_[id].begin + pieces_[id].size()) & ~(page - 1);
        if (end <= begin) continue;
        reserve();
        bytes const size = std::min(end - begin, most);
        cut_out(i, id, begin, size);
        try {
          each(begin, size);
        } catch (...) {
          (void)deallocate(allocate_in({begin, size}, {size, size}));
          throw;
        }
        most -= size;
        break;  // the rest of the block is a block further on
      }
    }
  }

  /// Bytes of the blocks; of what is in use, rounded up; of blocks in which nothing is in use.
  [[nodiscard]] bytes held() const { return held_; }
  [[nodiscard]] bytes in_use() const { return in_use_; }
  [[nodiscard]] bytes releasable() const { return releasable_; }
  [[nodiscard]] std::uint32_t releasable_blocks() const { return releasable_blocks_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t free_pieces() const { return free_pieces_; }
  [[nodiscard]] std::size_t live() const { return pieces_.in_use() - aside_.count(); }
  [[nodiscard]] bytes largest_free() const { return index_.largest(pieces_); }
  [[nodiscard]] bytes footprint() const {
    return pieces_.footprint() + index_.footprint() + blocks_.capacity() * sizeof(piece_id) +
           sizeof(*this);
  }

  /// The size of the piece in use that begins at `begin`, or nothing.
  [[nodiscard]] std::optional<sizes> size_of(std::uint64_t begin) const {
    piece_id const id = pieces_.find(begin).id;
    if (id == no_piece || pieces_[id].is_set_aside()) return std::nullopt;
    return sizes_of(id);
  }

  /// Marks a piece as one that has a note, until it is freed. False if `begin` is not in use.
  bool set_noted(std::uint64_t begin) {
    auto const found = pieces_.find(begin);
    if (found.id == no_piece || pieces_[found.id].is_set_aside()) return false;
    pieces_.set_noted(found);
    return true;
  }
  /// For the pool's ledger.
  [[nodiscard]] piece_table& pieces() { return pieces_; }

  /// Calls `visit(block)` for each block.
  template <class Visit>
  void for_each_block(Visit const& visit) const {
    for (piece_id const first : blocks_) {
      bytes size = 0;
      for (piece_id id = first; id != no_piece; id = pieces_[id].next) size += pieces_[id].size();
      visit(block{pieces_[first].begin, size});
    }
  }

  /// Calls `visit(begin, size, is_free)` for each piece of each block in order.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (piece_id const first : blocks_) {
      for (piece_id id = first; id != no_piece; id = pieces_[id].next)
        visit(pieces_[id].begin, pieces_[id].size(),
              pieces_[id].is_free() || pieces_[id].is_set_aside());
    }
  }

  /// What is wrong; empty if nothing is.
  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* otherwise, std::uint64_t at) {
      if (!holds) problems.push_back(std::string{otherwise} + " at " + std::to_string(at));
    };
    bytes held = 0, in_use = 0, releasable = 0;
    std::size_t live = 0, free = 0, aside = 0;
    std::uint32_t whole = 0;
    for (piece_id const first : blocks_) {
      expect(pieces_[first].prev == no_piece, "a block does not begin with its first piece",
             pieces_[first].begin);
      for (piece_id id = first; id != no_piece; id = pieces_[id].next) {
        auto const& piece = pieces_[id];
        held += piece.size();
        if (piece.next != no_piece) {
          auto const& next = pieces_[piece.next];
          expect(piece.begin + piece.size() == next.begin && next.prev == id,
                 "neighbours do not touch", piece.begin);
          expect(!piece.is_free() || !next.is_free(), "neighbours are both free", piece.begin);
        }
        if (!piece.is_free()) {
          if (piece.is_set_aside()) {
            ++aside;
          } else {
            ++live;
            in_use += piece.size();
          }
          expect(pieces_.find(piece.begin).id == id, "a piece in use is not found", piece.begin);
        } else {
          ++free;
          expect(pieces_.find(piece.begin).id == no_piece, "a free piece is found", piece.begin);
          if (pieces_.is_whole_block(id)) ++whole, releasable += piece.size();
          expect(index_.contains(pieces_, id), "a free piece is not in the index", piece.begin);
        }
      }
    }
    expect(held == held_ && in_use == in_use_ && live + aside_.count() == pieces_.in_use(),
           "sums of bytes are wrong", held);
    expect(aside == aside_.count(), "pieces that are set aside are counted wrongly", aside);
    expect(index_.count(pieces_) == free, "the index has what is not free", index_.count(pieces_));
    expect(free == free_pieces_, "free pieces are counted wrongly", free);
    expect(whole == releasable_blocks_ && releasable == releasable_,
           "releasable blocks are counted wrongly", releasable);
    return problems;
  }

 private:
  [[nodiscard]] sizes sizes_of(piece_id id) const {
    return {pieces_[id].asked(), pieces_[id].size()};
  }

  /// The first part of a piece that is not in the index goes into use; the rest into the index.
  [[nodiscard]] std::uint64_t take(piece_id id, sizes size) {
    bytes const cut = size_of_cut(size.rounded);
    if (pieces_[id].size() > cut) insert_free(pieces_.split(id, cut));
    pieces_.set_in_use(id, size.asked);
    in_use_ += pieces_[id].size();
    return pieces_[id].begin;
  }

  /// Takes [begin, begin + size) out of a free piece of block number `number`. Its neighbours are
  /// in use, so that what is left of it is free by itself. Requires room for a block and a piece.
  void cut_out(std::size_t number, piece_id id, std::uint64_t begin, bytes size) {
    remove_free(id);
    held_ -= size;
    bytes const before = begin - pieces_[id].begin;
    bytes const after = pieces_[id].size() - before - size;
    piece_id const prev = pieces_[id].prev;
    piece_id next = pieces_[id].next;
    if (next != no_piece) pieces_[next].prev = no_piece;
    if (after != 0) {
      next = pieces_.add(begin + size, after, no_piece, next);
      if (pieces_[next].next != no_piece) pieces_[pieces_[next].next].prev = next;
      insert_free(next);
    }
    if (next != no_piece) blocks_.push_back(next);
    if (before != 0) {
      pieces_.cut_short(id, before);
      insert_free(id);
      return;
    }
    if (prev != no_piece) {
      pieces_[prev].next = no_piece;
    } else {
      blocks_[number] = no_piece;
    }
    pieces_.remove(id);
  }

  sizes put_aside(piece_table::piece& piece, piece_table::found found,
                  piece_table::piece::state state) {
    sizes const size{piece.asked(), state.size()};
    in_use_ -= size.rounded;
    pieces_.set_aside(found, state);
    aside_.put(piece, found.id, size.rounded);
    return size;
  }
  void free_in_earnest(piece_table::found found) {
    pieces_.set_free(found);
    insert_merged(found.id);
  }
  /// Puts a free piece into the index, with the neighbours that are free.
  void insert_merged(piece_id id) {
    piece_id const before = pieces_[id].prev;
    piece_id const after = pieces_[id].next;
    if (after != no_piece && pieces_[after].is_free()) {
      remove_free(after);
      pieces_.merge_with_next(id);
    }
    if (before != no_piece && pieces_[before].is_free()) {
      remove_free(before);
      pieces_.merge_with_next(before);
      id = before;
    }
    insert_free(id);
  }

  void free_what_is_aside() {
    if (!aside_.pays()) {
      frees_to_rest_ = std::min(aside_.count(), most_of_rest) * rest;
      sets_aside_ = false;
    }
    aside_.take_all(pieces_,
                    [this](piece_id id) { free_in_earnest(pieces_.find(pieces_[id].begin)); });
  }

  void insert_free(piece_id id) {
    index_.insert(pieces_, id);
    ++free_pieces_;
    if (!pieces_.is_whole_block(id)) return;
    ++releasable_blocks_;
    releasable_ += pieces_[id].size();
  }
  void remove_free(piece_id id) {
    index_.remove(pieces_, id);
    --free_pieces_;
    if (!pieces_.is_whole_block(id)) return;
    --releasable_blocks_;
    releasable_ -= pieces_[id].size();
  }

  static constexpr std::size_t rest = 128;          // frees for each piece that nobody took again
  static constexpr std::size_t most_of_rest = 256;  // such pieces

  piece_table pieces_;
  Index index_;
  std::vector<piece_id> blocks_;  // the first piece of each
  bytes held_ = 0;
  bytes in_use_ = 0;
  bytes releasable_ = 0;
  std::uint32_t releasable_blocks_ = 0;
  std::size_t free_pieces_ = 0;
  aside_lists aside_;
  bool sets_aside_ = SetsAside;    // now
  bool cuts_whole_ = SetsAside;    // whether anything is ever set aside
  std::size_t frees_to_rest_ = 0;  // before anything is set aside again
};

/// The pool's strategy if none is named.
using fast_fit = fitting<segregated_fit, true>;

}  // namespace quarry::inline QUARRY_ABI
