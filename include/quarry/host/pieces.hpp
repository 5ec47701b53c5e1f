// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/piece_book.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace quarry::inline QUARRY_ABI {

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
  static constexpr std::uint32_t owners = piece_owners;

  using piece = quarry::piece;
  using book = piece_book;
  using record = piece_record;

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
  /// Bytes of bookkeeping: of pages that are resident. O(pages), by calls of the system.
  [[nodiscard]] bytes footprint() const {
    return lasting_resident(book_, sizeof(book)) +
           lasting_resident(pieces_, bytes_of_pieces(capacity_)) +
           lasting_resident(slots_, begin_table::bytes_of(slot_count_)) +
           (starts_ == nullptr ? 0 : starts_->resident(leaves_));
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
    book_->slices = nullptr;
    book_->starts = nullptr;
    starts_->clear(leaves_);
    lasting_deallocate(lasting_use::roots, starts_, sizeof(address_starts));
    starts_ = nullptr;
  }
  /// From now on `book().find` finds slices, too, if it finds anything.
  void keep_slices(slice_directory* all) {
    if (starts_ != nullptr) book_->slices = all;
  }
  /// Makes room for starts between these addresses. Throws std::bad_alloc.
  void reserve_starts(std::uint64_t begin, bytes size) {
    if (starts_ != nullptr && is_findable(begin, size)) starts_->reserve(begin, size, leaves_);
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

  friend struct process_layout;

  book* book_;
  piece_array* pieces_ = nullptr;
  begin_table* slots_ = nullptr;
  address_starts* starts_ = nullptr;
  address_starts::made_leaves leaves_;
  std::uint64_t capacity_ = 0, slot_count_ = 0, in_use_ = 0;
  piece_id made_ = 0;           // pieces that there ever were
  piece_id unused_ = no_piece;  // list by `next`
};

}  // namespace quarry::inline QUARRY_ABI
