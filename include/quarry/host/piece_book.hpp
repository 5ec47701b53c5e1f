// SPDX-License-Identifier: Apache-2.0
// What all threads may read of a pool's pieces.
#pragma once

#include "quarry/host/begin_table.hpp"
#include "quarry/host/slice_block.hpp"
#include "quarry/host/start_bits.hpp"
#include "quarry/host/watched.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// Which piece: a number that stays the same while the piece lives.
using piece_id = std::uint32_t;
inline constexpr piece_id no_piece = ~piece_id{0};

/// Owners of pieces that a strategy may tell apart.
inline constexpr std::uint32_t piece_owners = 1 << 13;

/// A part of a block: where it lies, its neighbours, and what it is used for.
class piece {
  static constexpr std::uint64_t free_flag = 1, aside_flag = 2, noted_flag = 4;
  static constexpr std::uint32_t flag_bits = 3, size_shift = 16;

 public:
  watched<std::uint64_t> begin;
  piece_id prev, next;  // neighbours in the block
  // lists' of pieces that are free or set aside; of one in use what was asked for
  watched<piece_id> link_prev, link_next;

  [[nodiscard]] bytes size() const { return size_ >> size_shift; }
  [[nodiscard]] bool is_free() const { return (size_ & free_flag) != 0; }
  /// Not free, and not a user's: kept whole for the next request of about its size.
  [[nodiscard]] bool is_set_aside() const { return (size_ & aside_flag) != 0; }
  /// The ledger has a note of it.
  [[nodiscard]] bool is_noted() const { return (size_ & noted_flag) != 0; }
  /// Who may have it, of a piece that is not in use, for strategies with several owners.
  [[nodiscard]] std::uint32_t owner() const {
    return static_cast<std::uint32_t>(size_ >> flag_bits) & (piece_owners - 1);
  }
  /// All of these at once, for who reads and writes several.
  class state {
   public:
    explicit state(std::uint64_t bits) : bits_{bits} {}
    [[nodiscard]] bytes size() const { return bits_ >> size_shift; }
    [[nodiscard]] bool is_set_aside() const { return (bits_ & aside_flag) != 0; }
    [[nodiscard]] bool is_noted() const { return (bits_ & noted_flag) != 0; }
    [[nodiscard]] bool has_flags() const {
      return (bits_ & (free_flag | aside_flag | noted_flag)) != 0;
    }
    [[nodiscard]] state set_aside() const { return state{(bits_ | aside_flag) & ~noted_flag}; }
    [[nodiscard]] state not_aside() const { return state{bits_ & ~aside_flag}; }

   private:
    friend class piece;
    std::uint64_t bits_;
  };
  [[nodiscard]] state get() const { return state{size_}; }
  void set(state all) { size_ = all.bits_; }
  void set_size(bytes size) {
    size_ = size << size_shift | (size_ & ((std::uint64_t{1} << size_shift) - 1));
  }
  void set_free() { change(aside_flag | noted_flag, free_flag); }
  void set_in_use() { change(free_flag, 0); }
  void set_noted() { change(0, noted_flag); }
  void set_owner(std::uint32_t owner) {
    change(std::uint64_t{piece_owners - 1} << flag_bits, std::uint64_t{owner} << flag_bits);
  }

  /// What was asked for. A slice block's piece has `by_no_user`: only its slices are somebody's.
  static constexpr bytes by_no_user = ~bytes{0};
  [[nodiscard]] bytes asked() const { return bytes{link_next} << 32 | link_prev; }
  void set_asked(bytes count) {
    link_prev = static_cast<piece_id>(count);
    link_next = static_cast<piece_id>(count >> 32);
  }

 private:
  friend struct piece_array;
  friend class piece_table;
  void change(std::uint64_t which, std::uint64_t to) { size_ = (size_ & ~which) | to; }

  watched<std::uint64_t> size_;
};
static_assert(sizeof(piece) == 32);

/// All pieces that there ever were, by number.
struct piece_array {
  watched<std::uint64_t> capacity;
  std::uint64_t unused[3];
  [[nodiscard]] piece* begin() { return reinterpret_cast<piece*>(this + 1); }
  [[nodiscard]] piece const* begin() const { return reinterpret_cast<piece const*>(this + 1); }

  // For those who look, and may have an old number: nullptr if it is too large; what is in use
  // there.
  [[nodiscard]] piece const* at(piece_id id) const {
    return id < capacity.seen() ? begin() + id : nullptr;
  }
  [[nodiscard]] static piece_record read(piece const& one) {
    seen_piece const found = look(one);
    bool const is_users = found.is_in_use && found.asked <= found.state >> piece::size_shift;
    return {is_users ? found.begin : 0, found.asked, (found.state & piece::noted_flag) != 0};
  }
  /// Where a piece begins that is a slice block; 0 if it is none.
  [[nodiscard]] static std::uint64_t begin_of_slices(piece const& one) {
    seen_piece const found = look(one);
    return found.is_in_use && found.asked == piece::by_no_user ? found.begin : 0;
  }

 private:
  struct seen_piece {
    std::uint64_t begin, state;
    bytes asked;
    bool is_in_use;
  };
  [[nodiscard]] static seen_piece look(piece const& one) {
    std::uint64_t const state = one.size_.seen();
    bytes const asked = bytes{one.link_next.seen()} << 32 | one.link_prev.seen();
    std::uint64_t const at = one.begin.seen();
    // What was removed is neither free nor set aside, and has no size. Its links may say no_piece
    // twice, which is by_no_user.
    bool const is_in_use = state >> piece::size_shift != 0 &&
                           (state & (piece::free_flag | piece::aside_flag)) == 0 &&
                           ((one.size_ ^ state) & ~piece::noted_flag) == 0;  // (V)
    return {at, state, asked, is_in_use};
  }
};

/// What other threads read of a table.
///
/// Lock-free, but for what is not there, which waits while a table is moved (so it is nothing for
/// signal handlers). A piece in use does not change, but for its note, nor do its word in the
/// hash table, which tells most sizes by itself, and the start bit that leads to it; so what is
/// found of it is right whatever else happens. What is not found may have been on the move in the
/// hash table: that counts if `version` stood still, which goes up before and after each move.
/// What is written between is written by release stores (W), and looked at by acquire loads (S):
/// who saw any of it sees the version before it, too (Boehm, "Can seqlocks get along with
/// programming language memory models?", 2012). So the second look at `version`, or at a piece's
/// state, may be relaxed (V): it comes after loads that acquire. A table that was outgrown reads
/// as zeros, as if it were empty.
struct piece_book {
  watched<std::uint64_t> version;
  watched<piece_array*> pieces;
  watched<begin_table*> slots;
  watched<std::uint64_t> slots_life;  // of the table there, or that was there just now
  watched<address_starts*> starts;
  watched<slice_directory*> slices;  // of pieces that are slice blocks
  // what its user wants to know of it; the registry adds a bit while it only looks
  mutable watched<std::uint64_t> owner;

  /// What is in use at `address`, which may be inside it. For an address whose owner
  /// gives it back at this moment, nothing, or what was or will be there.
  [[nodiscard]] piece_record find(std::uint64_t address) const {
    if (slice_directory const* const all = slices.seen()) {
      if (slice_block const* const its = all->look(address)) return its->find(address);
    }
    piece_record const found = find_begin(address);
    return found ? found : find_midst(address);
  }

  /// Calls `visit(record)` for what is in use: of a slice block for its slices. What changes
  /// meanwhile may be missed.
  template <class Visit>
  void for_each(Visit const& visit) const {
    slice_directory const* const all = slices.seen();
    piece_array const* const array = pieces.seen();
    std::uint64_t const count = array == nullptr ? 0 : array->capacity.seen();
    for (piece_id id = 0; id < count; ++id) {
      piece_record const found = piece_array::read(array->begin()[id]);
      std::uint64_t const granule =
          all == nullptr ? 0 : piece_array::begin_of_slices(array->begin()[id]);
      if (pieces.seen() != array) return;  // it is outgrown, and may be another pool's by now
      if (found) visit(found);
      if (granule == 0 || granule >= address_starts::end) continue;
      slice_block const* const its = all->look(granule);
      if (its != nullptr) its->for_each(visit);
    }
  }

 private:
  /// One try for what begins there, and one for what is smaller than a granule: most are.
  [[nodiscard, gnu::always_inline]] piece_record find_begin(std::uint64_t address) const {
    return address % begin_table::unit == 0 ? find_start(address) : piece_record{};
  }
  [[nodiscard]] piece_record find_small(std::uint64_t address) const {
    address_starts const* const all = starts.seen();
    std::uint64_t const begin = all == nullptr ? 0 : all->last_small(address);
    if (begin == 0) return {};
    piece_record const found = find_start(begin);
    return found.has(address) ? found : piece_record{};
  }
  [[nodiscard, gnu::noinline]] piece_record find_midst(std::uint64_t address) const {
    piece_record const found = find_small(address);
    return found ? found : find_any(address);
  }
  [[nodiscard, gnu::noinline]] piece_record find_any(std::uint64_t address) const {
    for (;;) {
      std::uint64_t const before = version.seen();
      if (piece_record const found = find_begin(address)) return found;
      if (piece_record const found = find_small(address)) return found;
      address_starts const* const all = starts.seen();
      piece_array const* const array = pieces.seen();
      if (all == nullptr || array == nullptr) return {};
      auto const is_below = [&](piece_id id) {
        return array->at(id) != nullptr && array->at(id)->begin.seen() <= address;
      };
      std::uint32_t const number = all->last_large(address, is_below);
      if (piece const* const one = number == 0 ? nullptr : array->at(number - 1)) {
        piece_record const found = piece_array::read(*one);
        if (found.has(address) && pieces.seen() == array) return found;
      }
      if (before % 2 == 0 && version == before) return {};  // (V)
    }
  }
  [[nodiscard, gnu::noinline]] piece_record ask(piece_id id) const {
    piece_array const* const array = pieces.seen();
    piece const* const one = array == nullptr ? nullptr : array->at(id);
    piece_record const found = one == nullptr ? piece_record{} : piece_array::read(*one);
    // or it is outgrown, and may be another pool's
    return pieces.seen() == array ? found : piece_record{};
  }
  [[nodiscard, gnu::always_inline]] piece_record find_start(std::uint64_t begin) const {
    begin_table const* const table = slots.seen();
    if (table == nullptr) return {};
    return table->look(begin, slots_life.seen(), [this](piece_id id) { return ask(id); });
  }
};

}  // namespace quarry::inline QUARRY_ABI
