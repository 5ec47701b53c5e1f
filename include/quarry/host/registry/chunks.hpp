// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/chunk_view.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace quarry::inline QUARRY_ABI {

/// The chunks that a pool's blocks are cut into, as numbers: no byte of the memory that they stand
/// for is read or written.
///
/// A chunk is in use or free. A block is one or more chunks, linked in the order of their
/// addresses. Chunks in use are found by their address through a hash table (base_table).
///
/// Invariants, checked by `audit`: (1) a block's chunks tile it; (2) no two neighbours are both
/// free; (3) the hash table has exactly the chunks in use. (2) holds between calls of the strategy,
/// not of this class.
///
/// Chunks are smaller than 2^48 bytes. One thread at a time may use it; any other may call `find`
/// of its `view` meanwhile. Costs 32 bytes a chunk, and 10.7 to 14.2 bytes in the table for one in
/// use. Memory for a chunk is got before anything changes (`reserve`), so that what gives memory
/// back needs none.
class chunk_table {
 public:
  static constexpr std::uint32_t owners = chunk_owners;

  using chunk = quarry::chunk;
  using view = chunk_view;
  using record = chunk_record;

 private:
  [[nodiscard]] auto base_of() const {
    return [this](chunk_id id) -> std::uint64_t { return (*this)[id].base; };
  }

 public:
  chunk_table()
      : view_{static_cast<view*>(type_stable_allocate(type_stable_use::views, sizeof(view)))} {}
  chunk_table(chunk_table&& other) noexcept = delete;
  ~chunk_table() {
    stop_keeping_starts();
    view_->slots = nullptr;
    view_->chunks = nullptr;
    view_->owner = 0;
    if (slots_ != nullptr)
      type_stable_deallocate(type_stable_use::slots, slots_, base_table::bytes_of(slots_->slots()));
    if (chunks_ != nullptr)
      type_stable_deallocate(type_stable_use::chunks, chunks_, bytes_of_chunks(chunks_->capacity));
    type_stable_deallocate(type_stable_use::views, view_, sizeof(view));
  }

  [[nodiscard]] chunk& operator[](chunk_id id) { return chunks_->begin()[id]; }
  [[nodiscard]] chunk const& operator[](chunk_id id) const { return chunks_->begin()[id]; }

  /// Makes room for three more chunks, and one more in use. Throws std::bad_alloc, and has changed
  /// nothing that can be seen then.
  void reserve() {
    if (made_ + 3 > capacity_) grow();
    if (!has_room(slot_count_)) rehash(capacity_);
  }

  /// A new free chunk. Requires room.
  [[nodiscard]] chunk_id add(std::uint64_t base, bytes size, chunk_id prev, chunk_id next) {
    chunk_id id = unused_;
    if (id != no_chunk) {
      unused_ = (*this)[id].next;
    } else {
      id = made_++;
    }
    chunk& fresh = (*this)[id];
    fresh.size_ = size << chunk::size_shift | chunk::free_flag;
    fresh.base = base;
    fresh.prev = prev;
    fresh.next = next;
    fresh.set_requested(~bytes{0});
    return id;
  }
  void remove(chunk_id id) {
    (*this)[id].size_ = 0;
    (*this)[id].next = unused_;
    unused_ = id;
  }

  /// Cuts `id` after `size` bytes; gives the free rest. Requires room, and more than `size` bytes.
  [[nodiscard]] chunk_id split(chunk_id id, bytes size) {
    chunk& first = (*this)[id];
    chunk_id const rest = add(first.base + size, first.size() - size, id, first.next);
    if (first.next != no_chunk) (*this)[first.next].prev = rest;
    first.next = rest;
    first.set_size(size);
    return rest;
  }
  /// Makes `id` as large as itself and the chunk behind it, which is gone then.
  void merge_with_next(chunk_id id) {
    chunk& first = (*this)[id];
    chunk_id const gone = first.next;
    first.set_size(first.size() + (*this)[gone].size());
    first.next = (*this)[gone].next;
    if (first.next != no_chunk) (*this)[first.next].prev = id;
    remove(gone);
  }

  /// Ends a block with `id`, of which `size` bytes are left.
  void cut_short(chunk_id id, bytes size) {
    (*this)[id].set_size(size);
    (*this)[id].next = no_chunk;
  }

  /// A chunk that is a whole block.
  [[nodiscard]] bool is_whole_block(chunk_id id) const {
    return (*this)[id].prev == no_chunk && (*this)[id].next == no_chunk;
  }

  /// Says that a free chunk is in use now, and what was asked for. Requires room.
  void set_in_use(chunk_id id, bytes requested) {
    chunk& one = (*this)[id];
    one.set_requested(requested);
    one.set_in_use();
    slots_->insert(one.base, id, requested, keeps_start_of(one));
    if (keeps_start_of(one)) starts_->insert(one.base, one.size(), id);
    ++in_use_;
  }
  /// Where the table has a chunk that is not free.
  struct found {
    chunk_id id;
    std::uint64_t slot;
  };

  /// The chunk that begins at `base` and is not free; `id` is `no_chunk` if there is none. O(1)
  /// expected.
  [[nodiscard]] found find(std::uint64_t base) const {
    if (slots_ == nullptr) return {no_chunk, 0};
    auto const location = slots_->find(base, base_of());
    return {location.number, location.slot};
  }

  /// Keeps a chunk whole that `find` found in use: it is not its user's any more, and has no label.
  void set_cached(found one, chunk::state state) {
    chunk& gone = (*this)[one.id];
    if (starts_ != nullptr) slots_->set_nobodys(one.slot);
    gone.set(state.set_cached());
    // where it is found, as long as it is aside
    gone.link_prev = static_cast<std::uint32_t>(one.slot);
  }
  /// Says that a chunk that was cached is in use again: where it begins, and its size.
  struct extent {
    std::uint64_t base;
    bytes size;
  };
  extent set_in_use_again(chunk_id id, bytes requested) {
    chunk& one = (*this)[id];
    std::uint64_t const slot = one.link_prev;
    auto const state = one.get().not_cached();
    std::uint64_t const base = one.base;
    one.set_requested(
        requested);  // first, since whoever looks relies on it once the chunk is in use
    one.set(state);
    if (starts_ != nullptr) slots_->set_size(slot, requested);
    return {base, state.size()};
  }
  /// Says that the registration has a label of a chunk that `find` found in use.
  void set_labelled(found one) {
    (*this)[one.id].set_labelled();
    slots_->set_asks(one.slot);
  }

  /// Says that a chunk, which `find` found, is free now.
  void set_free(found one) {
    chunk& gone = (*this)[one.id];
    gone.set_free();
    if (keeps_start_of(gone)) starts_->erase(gone.base, gone.size());
    {
      move const now{*view_};
      slots_->erase(one.slot, base_of(), [this](chunk_id id, std::uint64_t slot) {
        (*this)[id].link_prev = static_cast<std::uint32_t>(slot);
      });
    }
    --in_use_;
  }

  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  /// Bytes of bookkeeping: of pages that are resident. O(pages), by calls of the system.
  [[nodiscard]] bytes footprint() const {
    return type_stable_resident(view_, sizeof(view)) +
           type_stable_resident(chunks_, bytes_of_chunks(capacity_)) +
           type_stable_resident(slots_, base_table::bytes_of(slot_count_)) +
           (starts_ == nullptr ? 0 : starts_->resident(leaves_));
  }

  /// Calls `visit(id)` for every chunk there is.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (chunk_id id = 0; id < made_; ++id) {
      if ((*this)[id].size_ != 0) visit(id);
    }
  }

  /// From now on `view().find` finds what is in use; nothing may be in use yet. Throws
  /// std::bad_alloc.
  void keep_starts(std::uint64_t owner) {
    starts_ = static_cast<object_starts*>(
        type_stable_allocate(type_stable_use::roots, sizeof(object_starts)));
    view_->owner = owner;
    view_->starts = starts_;
  }
  void stop_keeping_starts() noexcept {
    if (starts_ == nullptr) return;
    view_->slices = nullptr;
    view_->starts = nullptr;
    starts_->clear(leaves_);
    type_stable_deallocate(type_stable_use::roots, starts_, sizeof(object_starts));
    starts_ = nullptr;
  }
  /// From now on `view().find` finds slices, too, if it finds anything.
  void keep_slices(slice_map* all) {
    if (starts_ != nullptr) view_->slices = all;
  }
  /// Makes room for starts between these addresses. Throws std::bad_alloc.
  void reserve_starts(std::uint64_t base, bytes size) {
    if (starts_ != nullptr && is_findable(base, size)) starts_->reserve(base, size, leaves_);
  }
  [[nodiscard]] view const& public_view() const { return *view_; }

  /// In the child of a fork: if a thread that the child has not was moving a table, nothing of it
  /// is found any more, and nobody waits for the end of the move.
  void abandon_move() noexcept {
    if (view_->version % 2 == 0) return;
    view_->slots = nullptr;
    view_->chunks = nullptr;
    view_->version = view_->version + 1;
  }

 private:
  [[nodiscard]] static bytes bytes_of_chunks(std::uint64_t count) {
    return sizeof(chunk_array) + count * sizeof(chunk);
  }

  [[nodiscard]] static bool is_findable(std::uint64_t base, bytes size) {
    return base < object_starts::end && size <= object_starts::end - base;
  }
  [[nodiscard]] bool keeps_start_of(chunk const& one) const {
    return starts_ != nullptr && is_findable(one.base, one.size());
  }

  /// While what others look for may be on the move.
  class move {
   public:
    explicit move(view& whose) : whose_{whose} { whose_.version = whose_.version + 1; }
    ~move() { whose_.version = whose_.version + 1; }
    move(move&&) = delete;

   private:
    view& whose_;
  };

  /// Whether so many slots are enough for one more chunk in use.
  [[nodiscard]] bool has_room(std::uint64_t slots) const { return (in_use_ + 1) * 4 <= slots * 3; }

  /// A table for numbers up to `numbers`, larger if this one has no room.
  [[gnu::noinline]] void rehash(std::uint64_t numbers) {
    std::uint64_t const minimum =
        has_room(slot_count_) ? slot_count_ : slot_count_ + slot_count_ / 3;
    std::uint64_t const count =
        std::min(base_table::slots_for(std::max(minimum, base_table::min_slots(numbers))),
                 base_table::max_slots);
    if (!has_room(count)) throw std::bad_alloc{};  // there cannot be more
    auto* const fresh = static_cast<base_table*>(
        type_stable_allocate(type_stable_use::slots, base_table::bytes_of(count)));
    fresh->lay_out(count, numbers);
    for_each([&](chunk_id id) {
      chunk& one = (*this)[id];
      if (one.is_free()) return;
      fresh->insert(one.base, id, one.requested(), keeps_start_of(one) && !one.is_labelled());
      if (!one.is_cached()) return;
      std::uint64_t const slot = fresh->find(one.base, base_of()).slot;
      one.link_prev = static_cast<std::uint32_t>(slot);
      if (starts_ != nullptr) fresh->set_nobodys(slot);
    });
    base_table* const old = slots_;
    move const now{*view_};
    view_->slots = slots_ = fresh;
    view_->slots_life = fresh->life();
    if (old != nullptr)
      type_stable_deallocate(type_stable_use::slots, old, base_table::bytes_of(slot_count_));
    slot_count_ = count;
  }
  [[gnu::noinline]] void grow() {
    bytes const room = type_stable_size(bytes_of_chunks(capacity_ + capacity_ / 2 + 3));
    std::uint64_t const capacity =
        std::min<std::uint64_t>(no_chunk, (room - sizeof(chunk_array)) / sizeof(chunk));
    if (capacity < capacity_ + 3) throw std::bad_alloc{};
    if (slots_ != nullptr && !slots_->has_bits_for(capacity)) rehash(capacity);
    auto* const larger = static_cast<chunk_array*>(
        type_stable_allocate(type_stable_use::chunks, bytes_of_chunks(capacity)));
    for (chunk_id id = 0; id < made_; ++id) {
      chunk const& from = (*this)[id];
      chunk& to = larger->begin()[id];
      to.base = from.base;
      to.prev = from.prev;
      to.next = from.next;
      to.link_prev = from.link_prev;
      to.link_next = from.link_next;
      to.size_ = from.size_;
    }
    larger->capacity = capacity;
    chunk_array* const old = chunks_;
    move const now{*view_};
    chunks_ = larger;
    view_->chunks = larger;
    if (old != nullptr)
      type_stable_deallocate(type_stable_use::chunks, old, bytes_of_chunks(capacity_));
    capacity_ = capacity;
  }

  friend struct process_layout;

  view* view_;
  chunk_array* chunks_ = nullptr;
  base_table* slots_ = nullptr;
  object_starts* starts_ = nullptr;
  object_starts::made_leaves leaves_;
  std::uint64_t capacity_ = 0, slot_count_ = 0, in_use_ = 0;
  chunk_id made_ = 0;           // chunks that there ever were
  chunk_id unused_ = no_chunk;  // list by `next`
};

}  // namespace quarry::inline QUARRY_ABI
