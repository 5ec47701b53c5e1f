// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/begin_table.hpp"
#include "quarry/host/start_bits.hpp"
#include "quarry/host/watched.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace quarry {

/// Which piece: a number that stays the same while the piece lives.
using piece_id = std::uint32_t;
inline constexpr piece_id no_piece = ~piece_id{0};

/// The pieces that a pool's blocks are cut into, as numbers: no byte of the memory that they stand
/// for is read or written.
///
/// A piece is in use or free. A block is one or more pieces, linked in the order of their
/// addresses. Pieces in use are found by their address through a hash table (begin_table).
///
/// Invariants, checked by `audit`: (1) a block's pieces tile it; (2) no two neighbours are both
/// free; (3) the hash table has exactly the pieces in use. (2) holds between calls of the strategy,
/// not of this class.
///
/// Pieces are smaller than 2^48 bytes. One thread at a time may use it; any other may call `find`
/// of its `book` meanwhile. Costs 32 bytes a piece, and 10.7 to 14.2 bytes in the table for one in
/// use. Memory for a piece is got before anything changes (`reserve`), so that what gives memory
/// back needs none.
class piece_table {
 public:
  static constexpr std::uint32_t owners = 1 << 13;  // that a strategy may tell apart

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
      return static_cast<std::uint32_t>(size_ >> flag_bits) & (owners - 1);
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
      change(std::uint64_t{owners - 1} << flag_bits, std::uint64_t{owner} << flag_bits);
    }

    [[nodiscard]] bytes asked() const { return bytes{link_next} << 32 | link_prev; }
    void set_asked(bytes count) {
      link_prev = static_cast<piece_id>(count);
      link_next = static_cast<piece_id>(count >> 32);
    }

   private:
    friend class piece_table;
    void change(std::uint64_t which, std::uint64_t to) { size_ = (size_ & ~which) | to; }

    watched<std::uint64_t> size_;
  };
  static_assert(sizeof(piece) == 32);

  using record = piece_record;

 private:
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
    [[nodiscard]] static record read(piece const& one) {
      std::uint64_t const state = one.size_.seen();
      bytes const asked = bytes{one.link_next.seen()} << 32 | one.link_prev.seen();
      std::uint64_t const at = one.begin.seen();
      // what was removed is neither free nor set aside
      bool const is_there = state >> piece::size_shift != 0;
      bool const is_users = is_there && (state & (piece::free_flag | piece::aside_flag)) == 0 &&
                            asked <= state >> piece::size_shift &&
                            ((one.size_ ^ state) & ~piece::noted_flag) == 0;  // (V)
      return {is_users ? at : 0, asked, (state & piece::noted_flag) != 0};
    }
  };

 public:
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
  struct book {
    watched<std::uint64_t> version;
    watched<piece_array*> pieces;
    watched<begin_table*> slots;
    watched<std::uint64_t> slots_life;  // of the table there, or that was there just now
    watched<address_starts*> starts;
    watched<std::uint64_t> owner;  // what its user wants to know of it

    /// What is in use at `address`, which may be in the midst of it. For an address whose owner
    /// gives it back at this moment, nothing, or what was or will be there.
    [[nodiscard]] record find(std::uint64_t address) const {
      record const found = find_begin(address);
      return found ? found : find_midst(address);
    }

    /// Calls `visit(record)` for what is in use. What changes meanwhile may be missed.
    template <class Visit>
    void for_each(Visit const& visit) const {
      piece_array const* const array = pieces.seen();
      std::uint64_t const count = array == nullptr ? 0 : array->capacity.seen();
      for (piece_id id = 0; id < count; ++id) {
        record const found = piece_array::read(array->begin()[id]);
        if (pieces.seen() != array) return;  // it is outgrown, and may be another pool's by now
        if (found) visit(found);
      }
    }

   private:
    /// One try for what begins there, and one for what is smaller than a granule: most are.
    [[nodiscard, gnu::always_inline]] record find_begin(std::uint64_t address) const {
      return address % begin_table::unit == 0 ? find_start(address) : record{};
    }
    [[nodiscard]] record find_small(std::uint64_t address) const {
      address_starts const* const all = starts.seen();
      std::uint64_t const begin = all == nullptr ? 0 : all->last_small(address);
      if (begin == 0) return {};
      record const found = find_start(begin);
      return found.has(address) ? found : record{};
    }
    [[nodiscard, gnu::noinline]] record find_midst(std::uint64_t address) const {
      record const found = find_small(address);
      return found ? found : find_any(address);
    }
    [[nodiscard, gnu::noinline]] record find_any(std::uint64_t address) const {
      for (;;) {
        std::uint64_t const before = version.seen();
        if (record const found = find_begin(address)) return found;
        if (record const found = find_small(address)) return found;
        address_starts const* const all = starts.seen();
        piece_array const* const array = pieces.seen();
        if (all == nullptr || array == nullptr) return {};
        auto const is_below = [&](piece_id id) {
          return array->at(id) != nullptr && array->at(id)->begin.seen() <= address;
        };
        std::uint32_t const number = all->last_large(address, is_below);
        if (piece const* const one = number == 0 ? nullptr : array->at(number - 1)) {
          record const found = piece_array::read(*one);
          if (found.has(address) && pieces.seen() == array) return found;
        }
        if (before % 2 == 0 && version == before) return {};  // (V)
      }
    }
    [[nodiscard, gnu::noinline]] record ask(piece_id id) const {
      piece_array const* const array = pieces.seen();
      piece const* const one = array == nullptr ? nullptr : array->at(id);
      record const found = one == nullptr ? record{} : piece_array::read(*one);
      // or it is outgrown, and may be another pool's
      return pieces.seen() == array ? found : record{};
    }
    [[nodiscard, gnu::always_inline]] record find_start(std::uint64_t begin) const {
      begin_table const* const table = slots.seen();
      if (table == nullptr) return {};
      return table->look(begin, slots_life.seen(), [this](piece_id id) { return ask(id); });
    }
  };

 private:
  [[nodiscard]] auto begin_of() const {
    return [this](piece_id id) -> std::uint64_t { return (*this)[id].begin; };
  }

 public:
  piece_table() : book_{static_cast<book*>(lasting_allocate(lasting_use::books, sizeof(book)))} {}
  piece_table(piece_table&& other) noexcept = delete;
  ~piece_table() {
    stop_keeping_starts();
    book_->slots = nullptr;
    book_->pieces = nullptr;
    book_->owner = 0;
    if (slots_ != nullptr)
      lasting_deallocate(lasting_use::slots, slots_, begin_table::bytes_of(slots_->slots()));
    if (pieces_ != nullptr)
      lasting_deallocate(lasting_use::pieces, pieces_, bytes_of_pieces(pieces_->capacity));
    lasting_deallocate(lasting_use::books, book_, sizeof(book));
  }

  [[nodiscard]] piece& operator[](piece_id id) { return pieces_->begin()[id]; }
  [[nodiscard]] piece const& operator[](piece_id id) const { return pieces_->begin()[id]; }

  /// Makes room for three more pieces, and one more in use. Throws std::bad_alloc, and has changed
  /// nothing that can be seen then.
  void reserve() {
    if (made_ + 3 > capacity_) grow();
    if (!has_room(slot_count_)) rehash(capacity_);
  }

  /// A new free piece. Requires room.
  [[nodiscard]] piece_id add(std::uint64_t begin, bytes size, piece_id prev, piece_id next) {
    piece_id id = unused_;
    if (id != no_piece) {
      unused_ = (*this)[id].next;
    } else {
      id = made_++;
    }
    piece& fresh = (*this)[id];
    fresh.size_ = size << piece::size_shift | piece::free_flag;
    fresh.begin = begin;
    fresh.prev = prev;
    fresh.next = next;
    fresh.set_asked(~bytes{0});
    return id;
  }
  void remove(piece_id id) {
    (*this)[id].size_ = 0;
    (*this)[id].next = unused_;
    unused_ = id;
  }

  /// Cuts `id` after `size` bytes; gives the free rest. Requires room, and more than `size` bytes.
  [[nodiscard]] piece_id split(piece_id id, bytes size) {
    piece& first = (*this)[id];
    piece_id const rest = add(first.begin + size, first.size() - size, id, first.next);
    if (first.next != no_piece) (*this)[first.next].prev = rest;
    first.next = rest;
    first.set_size(size);
    return rest;
  }
  /// Makes `id` as large as itself and the piece behind it, which is gone then.
  void merge_with_next(piece_id id) {
    piece& first = (*this)[id];
    piece_id const gone = first.next;
    first.set_size(first.size() + (*this)[gone].size());
    first.next = (*this)[gone].next;
    if (first.next != no_piece) (*this)[first.next].prev = id;
    remove(gone);
  }

  /// Ends a block with `id`, of which `size` bytes are left.
  void cut_short(piece_id id, bytes size) {
    (*this)[id].set_size(size);
    (*this)[id].next = no_piece;
  }

  /// A piece that is a whole block.
  [[nodiscard]] bool is_whole_block(piece_id id) const {
    return (*this)[id].prev == no_piece && (*this)[id].next == no_piece;
  }

  /// Says that a free piece is in use now, and what was asked for. Requires room.
  void set_in_use(piece_id id, bytes asked) {
    piece& one = (*this)[id];
    one.set_asked(asked);
    one.set_in_use();
    slots_->insert(one.begin, id, asked, keeps_start_of(one));
    if (keeps_start_of(one)) starts_->insert(one.begin, one.size(), id);
    ++in_use_;
  }
  /// Where the table has a piece that is not free.
  struct found {
    piece_id id;
    std::uint64_t slot;
  };

  /// The piece that begins at `begin` and is not free; `id` is `no_piece` if there is none. O(1)
  /// expected.
  [[nodiscard]] found find(std::uint64_t begin) const {
    if (slots_ == nullptr) return {no_piece, 0};
    auto const place = slots_->find(begin, begin_of());
    return {place.number, place.slot};
  }

  /// Keeps a piece whole that `find` found in use: it is not its user's any more, and has no note.
  void set_aside(found one, piece::state state) {
    piece& gone = (*this)[one.id];
    if (starts_ != nullptr) slots_->set_nobodys(one.slot);
    gone.set(state.set_aside());
    // where it is found, as long as it is aside
    gone.link_prev = static_cast<std::uint32_t>(one.slot);
  }
  /// Says that a piece that was set aside is in use again: where it begins, and its size.
  struct extent {
    std::uint64_t begin;
    bytes size;
  };
  extent set_in_use_again(piece_id id, bytes asked) {
    piece& one = (*this)[id];
    std::uint64_t const slot = one.link_prev;
    auto const state = one.get().not_aside();
    std::uint64_t const begin = one.begin;
    one.set_asked(asked);  // first, since whoever looks relies on it once the piece is in use
    one.set(state);
    if (starts_ != nullptr) slots_->set_size(slot, asked);
    return {begin, state.size()};
  }
  /// Says that the ledger has a note of a piece that `find` found in use.
  void set_noted(found one) {
    (*this)[one.id].set_noted();
    slots_->set_asks(one.slot);
  }

  /// Says that a piece, which `find` found, is free now.
  void set_free(found one) {
    piece& gone = (*this)[one.id];
    gone.set_free();
    if (keeps_start_of(gone)) starts_->erase(gone.begin, gone.size());
    {
      move const now{*book_};
      slots_->erase(one.slot, begin_of(), [this](piece_id id, std::uint64_t slot) {
        (*this)[id].link_prev = static_cast<std::uint32_t>(slot);
      });
    }
    --in_use_;
  }

  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  /// Bytes of bookkeeping that were ever written to.
  [[nodiscard]] bytes footprint() const {
    return made_ * sizeof(piece) + slot_count_ * sizeof(word);
  }

  /// Calls `visit(id)` for every piece there is.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (piece_id id = 0; id < made_; ++id) {
      if ((*this)[id].size_ != 0) visit(id);
    }
  }

  /// From now on `book().find` finds what is in use; nothing may be in use yet. Throws
  /// std::bad_alloc.
  void keep_starts(std::uint64_t owner) {
    starts_ =
        static_cast<address_starts*>(lasting_allocate(lasting_use::roots, sizeof(address_starts)));
    book_->owner = owner;
    book_->starts = starts_;
  }
  void stop_keeping_starts() noexcept {
    if (starts_ == nullptr) return;
    book_->starts = nullptr;
    starts_->clear();
    lasting_deallocate(lasting_use::roots, starts_, sizeof(address_starts));
    starts_ = nullptr;
  }
  /// Makes room for starts between these addresses. Throws std::bad_alloc.
  void reserve_starts(std::uint64_t begin, bytes size) {
    if (starts_ != nullptr && is_findable(begin, size)) starts_->reserve(begin, size);
  }
  [[nodiscard]] book const& public_book() const { return *book_; }

  /// In the child of a fork: if a thread that the child has not was moving a table, nothing of it
  /// is found any more, and nobody waits for the end of the move.
  void abandon_move() noexcept {
    if (book_->version % 2 == 0) return;
    book_->slots = nullptr;
    book_->pieces = nullptr;
    book_->version = book_->version + 1;
  }

 private:
  [[nodiscard]] static bytes bytes_of_pieces(std::uint64_t count) {
    return sizeof(piece_array) + count * sizeof(piece);
  }

  [[nodiscard]] static bool is_findable(std::uint64_t begin, bytes size) {
    return begin < address_starts::end && size <= address_starts::end - begin;
  }
  [[nodiscard]] bool keeps_start_of(piece const& one) const {
    return starts_ != nullptr && is_findable(one.begin, one.size());
  }

  /// While what others look for may be on the move.
  class move {
   public:
    explicit move(book& whose) : whose_{whose} { whose_.version = whose_.version + 1; }
    ~move() { whose_.version = whose_.version + 1; }
    move(move&&) = delete;

   private:
    book& whose_;
  };

  /// Whether so many slots are enough for one more piece in use.
  [[nodiscard]] bool has_room(std::uint64_t slots) const { return (in_use_ + 1) * 4 <= slots * 3; }

  /// A table for numbers up to `numbers`, larger if this one has no room.
  [[gnu::noinline]] void rehash(std::uint64_t numbers) {
    std::uint64_t const least = has_room(slot_count_) ? slot_count_ : slot_count_ + slot_count_ / 3;
    std::uint64_t const count =
        std::min(begin_table::slots_for(std::max(least, begin_table::least_slots(numbers))),
                 begin_table::most_slots);
    if (!has_room(count)) throw std::bad_alloc{};  // there cannot be more
    auto* const fresh = static_cast<begin_table*>(
        lasting_allocate(lasting_use::slots, begin_table::bytes_of(count)));
    fresh->lay_out(count, numbers);
    for_each([&](piece_id id) {
      piece& one = (*this)[id];
      if (one.is_free()) return;
      fresh->insert(one.begin, id, one.asked(), keeps_start_of(one) && !one.is_noted());
      if (!one.is_set_aside()) return;
      std::uint64_t const slot = fresh->find(one.begin, begin_of()).slot;
      one.link_prev = static_cast<std::uint32_t>(slot);
      if (starts_ != nullptr) fresh->set_nobodys(slot);
    });
    begin_table* const old = slots_;
    move const now{*book_};
    book_->slots = slots_ = fresh;
    book_->slots_life = fresh->life();
    if (old != nullptr)
      lasting_deallocate(lasting_use::slots, old, begin_table::bytes_of(slot_count_));
    slot_count_ = count;
  }
  [[gnu::noinline]] void grow() {
    bytes const room = lasting_size(bytes_of_pieces(capacity_ + capacity_ / 2 + 3));
    std::uint64_t const capacity =
        std::min<std::uint64_t>(no_piece, (room - sizeof(piece_array)) / sizeof(piece));
    if (capacity < capacity_ + 3) throw std::bad_alloc{};
    if (slots_ != nullptr && !slots_->has_bits_for(capacity)) rehash(capacity);
    auto* const larger =
        static_cast<piece_array*>(lasting_allocate(lasting_use::pieces, bytes_of_pieces(capacity)));
    for (piece_id id = 0; id < made_; ++id) {
      piece const& from = (*this)[id];
      piece& to = larger->begin()[id];
      to.begin = from.begin;
      to.prev = from.prev;
      to.next = from.next;
      to.link_prev = from.link_prev;
      to.link_next = from.link_next;
      to.size_ = from.size_;
    }
    larger->capacity = capacity;
    piece_array* const old = pieces_;
    move const now{*book_};
    pieces_ = larger;
    book_->pieces = larger;
    if (old != nullptr) lasting_deallocate(lasting_use::pieces, old, bytes_of_pieces(capacity_));
    capacity_ = capacity;
  }

  book* book_;
  piece_array* pieces_ = nullptr;
  begin_table* slots_ = nullptr;
  address_starts* starts_ = nullptr;
  std::uint64_t capacity_ = 0, slot_count_ = 0;
  std::size_t in_use_ = 0;
  piece_id made_ = 0;           // pieces that there ever were
  piece_id unused_ = no_piece;  // list by `next`
};

}  // namespace quarry
