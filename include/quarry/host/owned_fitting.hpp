// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/fitting.hpp"

#include <memory>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A strategy whose free pieces have owners: what one frees only that one gets again, at once
/// and without a word to the others, until it is made common. For streams: what is common is what
/// all may have, once they have waited.
///
/// Owner 0 is what is common. Each owner has segregated lists, and lists of what is set aside (see
/// fitting): one for what it freed since it was last `covered`, which is not made common, and
/// one for what it had set aside before. Free neighbours of one owner are merged. Deals in
/// addresses and never touches memory; not thread-safe. Invariants, checked by `audit`: those of
/// piece_table, with (2) of neighbours of one owner; the lists have exactly the owner's free
/// pieces; the sums are right.
class owned_fitting {
 public:
  using block = fitting<segregated_fit>::block;
  using sizes = fitting<segregated_fit>::sizes;

  explicit owned_fitting(bytes alignment = 16)
      : unit_shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {
    (void)add_owner();
  }

  /// One more owner: its number. Throws std::bad_alloc; gives nothing when there are 8192.
  [[nodiscard]] std::optional<std::uint32_t> add_owner() {
    if (owners_.size() == piece_table::owners) return std::nullopt;
    owners_.push_back(std::make_unique<owner>(unit_shift_));
    return static_cast<std::uint32_t>(owners_.size() - 1);
  }

  /// A piece of what the owner has; 0 if nothing of that fits. Throws std::bad_alloc if there is no
  /// memory for bookkeeping. O(1). For who will `trim` the piece, nothing that was freed since
  /// it was last covered will do: its parts could be made common.
  [[nodiscard]] std::uint64_t allocate(std::uint32_t whose, sizes size,
                                       bool will_be_trimmed = false) {
    owner& mine = *owners_[whose];
    piece_id id = will_be_trimmed ? no_piece : mine.recent->take(pieces_, size.rounded);
    if (id == no_piece) id = mine.aside->take(pieces_, size.rounded);
    if (id != no_piece) {
      auto const again = pieces_.set_in_use_again(id, size.asked);
      in_use_ += again.size;
      return again.begin;
    }
    reserve();
    id = mine.free.find(pieces_, size.rounded);
    if (id == no_piece) return 0;
    remove_free(id);
    return take(whose, id, size);
  }
  /// As fitting's, of a piece that `allocate` gave to `whose` to be trimmed: the rest is that
  /// owner's, as what is covered.
  [[nodiscard]] std::uint64_t trim(std::uint32_t whose, std::uint64_t begin, sizes size,
                                   bytes alignment) {
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
    if (before != 0) insert_merged(whose, front);
    if (behind != no_piece) insert_merged(whose, behind);
    return pieces_[id].begin;
  }
  /// From now on what the owner freed may be made common. What was set aside before the last
  /// such moment, and nobody wanted since, is merged. O(such pieces).
  void cover(std::uint32_t whose) {
    owner& mine = *owners_[whose];
    if (mine.recent->count() == 0) return;
    merge_aside(whose);
    std::swap(mine.recent, mine.aside);
  }
  /// Whether it freed anything since it was covered, and has it still.
  [[nodiscard]] bool has_recent(std::uint32_t whose) const {
    return owners_[whose]->recent->count() != 0;
  }

  /// Merges what the owner had set aside before it was last covered. True if there was any: then
  /// something larger may fit.
  bool merge_aside(std::uint32_t whose) {
    owner& mine = *owners_[whose];
    if (mine.aside->count() == 0) return false;
    mine.aside->take_all(
        pieces_, [&](piece_id id) { free_in_earnest(whose, pieces_.find(pieces_[id].begin)); });
    return true;
  }
  /// Makes common what the owner has, but for what it freed since it was last covered. O(its
  /// pieces).
  void share(std::uint32_t whose) {
    merge_aside(whose);
    owner& mine = *owners_[whose];
    for (piece_id id = mine.free.any(); id != no_piece; id = mine.free.any()) {
      remove_free(id);
      insert_merged(0, id);
    }
  }
  /// Whether it has anything that is free.
  [[nodiscard]] bool has_any(std::uint32_t whose) const {
    owner const& mine = *owners_[whose];
    return mine.recent->count() + mine.aside->count() != 0 || mine.free.any() != no_piece;
  }

  /// As fitting's.
  [[nodiscard]] bytes size_of_cut(bytes rounded) const { return owners_[0]->aside->whole(rounded); }

  /// Takes over a block that is large enough, and allocates a piece of it; the rest is the owner's.
  /// Requires room (`reserve`).
  [[nodiscard]] std::uint64_t allocate_in(std::uint32_t whose, block const& fresh, sizes size) {
    piece_id const id = pieces_.add(fresh.begin, fresh.size, no_piece, no_piece);
    blocks_.push_back(id);
    held_ += fresh.size;
    return take(whose, id, size);
  }
  /// Makes room for a block and for an allocation. Throws std::bad_alloc, and has changed nothing
  /// then.
  void reserve() {
    pieces_.reserve();
    if (blocks_.size() == blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
  }

  /// Frees what `allocate` gave, to `whose`. Its size; or none, and nothing is changed, if
  /// `begin` is not in use. Calls `on_noted()` if it had a note.
  template <class OnNoted>
  sizes deallocate(std::uint32_t whose, std::uint64_t begin, OnNoted const& on_noted) {
    auto const found = pieces_.find(begin);
    if (found.id == no_piece || pieces_[found.id].is_set_aside()) return {};
    auto& piece = pieces_[found.id];
    sizes const size{piece.asked(), piece.size()};
    in_use_ -= size.rounded;
    if (piece.is_noted()) [[unlikely]]
      on_noted();
    piece.set_owner(whose);
    pieces_.set_aside(found, piece.get());
    owners_[whose]->recent->put(piece, found.id, size.rounded);
    return size;
  }
  sizes deallocate(std::uint32_t whose, std::uint64_t begin) {
    return deallocate(whose, begin, [] {});
  }

  /// Gives up the blocks in which nothing is in use and all is common: calls `give_back(block)` for
  /// each, which may call this strategy again.
  template <class GiveBack>
  void release(GiveBack const& give_back) {
    cover(0);
    merge_aside(0);
    constexpr std::size_t most_at_once = 64;
    block gone[most_at_once];
    std::size_t count = 0;
    do {
      count = 0;
      std::erase_if(blocks_, [&](piece_id id) {
        if (count == most_at_once || !pieces_[id].is_free() || pieces_[id].owner() != 0 ||
            !pieces_.is_whole_block(id))
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

  [[nodiscard]] bytes held() const { return held_; }
  [[nodiscard]] bytes in_use() const { return in_use_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t live() const { return pieces_.in_use() - aside_count(); }
  [[nodiscard]] bytes footprint() const {
    return pieces_.footprint() + owners_.size() * sizeof(owner) +
           blocks_.capacity() * sizeof(piece_id) + sizeof(*this);
  }
  [[nodiscard]] piece_table& pieces() { return pieces_; }
  [[nodiscard]] std::optional<sizes> size_of(std::uint64_t begin) const {
    piece_id const id = pieces_.find(begin).id;
    if (id == no_piece || pieces_[id].is_set_aside()) return std::nullopt;
    return sizes{pieces_[id].asked(), pieces_[id].size()};
  }
  /// As fitting's.
  bool set_noted(std::uint64_t begin) {
    auto const found = pieces_.find(begin);
    if (found.id == no_piece || pieces_[found.id].is_set_aside()) return false;
    pieces_.set_noted(found);
    return true;
  }
  template <class Visit>
  void for_each_block(Visit const& visit) const {
    for (piece_id const first : blocks_) {
      bytes size = 0;
      for (piece_id id = first; id != no_piece; id = pieces_[id].next) size += pieces_[id].size();
      visit(block{pieces_[first].begin, size});
    }
  }

  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* otherwise, std::uint64_t at) {
      if (!holds) problems.push_back(std::string{otherwise} + " at " + std::to_string(at));
    };
    bytes held = 0, in_use = 0;
    std::size_t live = 0, aside = 0;
    std::vector<std::size_t> free(owners_.size());
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
          expect(!piece.is_free() || !next.is_free() || piece.owner() != next.owner(),
                 "neighbours of one owner are both free", piece.begin);
        }
        expect((pieces_.find(piece.begin).id == id) != piece.is_free(),
               "the table has what is free, or has not what is in use", piece.begin);
        if (piece.is_free()) {
          expect(piece.owner() < owners_.size(), "a free piece has no owner", piece.begin);
          expect(owners_[piece.owner()]->free.contains(pieces_, id),
                 "a free piece is not in its owner's lists", piece.begin);
          ++free[piece.owner()];
        } else if (piece.is_set_aside()) {
          ++aside;
        } else {
          ++live;
          in_use += piece.size();
        }
      }
    }
    std::size_t set_aside = 0;
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      expect(owners_[i]->free.count(pieces_) == free[i],
             "an owner's lists have what is not free, or not its", i);
      set_aside += owners_[i]->aside->count() + owners_[i]->recent->count();
    }
    expect(held == held_ && in_use == in_use_ && live + aside == pieces_.in_use(),
           "sums of bytes are wrong", held);
    expect(aside == set_aside, "pieces that are set aside are counted wrongly", aside);
    return problems;
  }

 private:
  struct owner {
    explicit owner(std::uint32_t unit_shift)
        : lists{aside_lists{unit_shift}, aside_lists{unit_shift}} {}
    owner(owner&&) = delete;
    segregated_fit free;
    aside_lists lists[2];
    aside_lists *recent = &lists[0], *aside = &lists[1];  // since it was last covered, and before
  };

  [[nodiscard]] std::size_t aside_count() const {
    std::size_t sum = 0;
    for (auto const& each : owners_) sum += each->aside->count() + each->recent->count();
    return sum;
  }

  [[nodiscard]] std::uint64_t take(std::uint32_t whose, piece_id id, sizes size) {
    bytes const cut = size_of_cut(size.rounded);
    if (pieces_[id].size() > cut) insert_free(whose, pieces_.split(id, cut));
    pieces_.set_in_use(id, size.asked);
    in_use_ += pieces_[id].size();
    return pieces_[id].begin;
  }
  void free_in_earnest(std::uint32_t whose, piece_table::found found) {
    pieces_.set_free(found);
    insert_merged(whose, found.id);
  }
  /// Puts a free piece, which no list has, into the owner's lists, with the neighbours that are its
  /// and free.
  void insert_merged(std::uint32_t whose, piece_id id) {
    auto const is_mine = [&](piece_id other) {
      return other != no_piece && pieces_[other].is_free() && pieces_[other].owner() == whose;
    };
    piece_id const before = pieces_[id].prev;
    piece_id const after = pieces_[id].next;
    if (is_mine(after)) {
      remove_free(after);
      pieces_.merge_with_next(id);
    }
    if (is_mine(before)) {
      remove_free(before);
      pieces_.merge_with_next(before);
      id = before;
    }
    insert_free(whose, id);
  }
  void insert_free(std::uint32_t whose, piece_id id) {
    pieces_[id].set_owner(whose);
    owners_[whose]->free.insert(pieces_, id);
  }
  void remove_free(piece_id id) { owners_[pieces_[id].owner()]->free.remove(pieces_, id); }

  piece_table pieces_;
  std::vector<std::unique_ptr<owner>> owners_;
  std::vector<piece_id> blocks_;  // the first piece of each
  bytes held_ = 0, in_use_ = 0;
  std::uint32_t unit_shift_;
};

}  // namespace quarry::inline QUARRY_ABI
