// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/chunk_view.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace quarry::inline QUARRY_ABI::detail {

/// The chunks that a pool's blocks are cut into: the writer's side. Works with addresses; never
/// reads or writes the memory of the chunks.
///
/// A block is one or more chunks, linked in the order of their addresses. A hash table (base_table)
/// finds the chunks that are not free by their address.
///
/// Invariants, checked by the arena's `audit`: (1) A block's chunks tile it. (2) No two neighbours
/// are both free. This holds between calls of the arena, not of this class. (3) The hash table has
/// exactly the chunks that are not free.
///
/// Chunks are smaller than 2^48 bytes. One thread at a time may use the table; any other thread may
/// read its `public_view` meanwhile. A chunk costs 32 bytes. A chunk that is not free also costs
/// 10.7 to 14.2 bytes in the hash table, which after its growth is 9/16 to 3/4 full. `reserve`
/// allocates the memory for a chunk before anything changes, so that frees need none.
class chunk_table {
 public:
  static constexpr std::uint32_t owners = chunk_owners;

  using chunk = quarry::detail::chunk;
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

  /// Makes room for three more chunks, of which one is allocated. Throws std::bad_alloc, and then
  /// has changed nothing that a caller can see.
  void reserve() {
    if (made_ + 3 > capacity_) grow();
    if (!has_room(slot_count_)) rehash(capacity_);
    if (starts_ != nullptr) object_starts::reserve_insert(leaves_);
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

  /// Cuts `id` after `size` bytes; returns the remainder, which is free. Requires room, and more
  /// than `size` bytes.
  [[nodiscard]] chunk_id split(chunk_id id, bytes size) {
    chunk& first = (*this)[id];
    chunk_id const remainder = add(first.base + size, first.size() - size, id, first.next);
    if (first.next != no_chunk) (*this)[first.next].prev = remainder;
    first.next = remainder;
    first.set_size(size);
    return remainder;
  }
  /// Adds the chunk behind `id` to `id`, and removes that chunk.
  void merge_with_next(chunk_id id) {
    chunk& first = (*this)[id];
    chunk_id const removed = first.next;
    first.set_size(first.size() + (*this)[removed].size());
    first.next = (*this)[removed].next;
    if (first.next != no_chunk) (*this)[first.next].prev = id;
    remove(removed);
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

  /// Allocates a free chunk for a request of `requested` bytes. Requires room.
  void set_in_use(chunk_id id, bytes requested) {
    chunk& used = (*this)[id];
    used.set_requested(requested);
    used.set_in_use();
    slots_->insert(used.base, id, requested, keeps_start_of(used));
    if (keeps_start_of(used)) starts_->insert(used.base, used.size(), id, leaves_);
    ++in_use_;
  }
  /// A chunk that is not free, and its slot in the hash table.
  struct found {
    chunk_id id;
    std::uint64_t slot;
  };

  /// The chunk at `base` if it is not free; otherwise `id` is `no_chunk`. O(1) expected.
  [[nodiscard]] found find(std::uint64_t base) const {
    if (slots_ == nullptr) return {no_chunk, 0};
    auto const location = slots_->find(base, base_of());
    return {location.number, location.slot};
  }

  /// Frees an allocated chunk, which `find` found, and keeps it whole. Removes its label.
  void set_cached(found entry, chunk::state state) {
    chunk& removed = (*this)[entry.id];
    if (starts_ != nullptr) slots_->set_unallocated(entry.slot);
    removed.set(state.set_cached());
    removed.set_slot(entry.slot);
  }
  struct extent {
    std::uint64_t base;
    bytes size;
  };
  /// Allocates a cached chunk; returns its address and size.
  extent set_in_use_again(chunk_id id, bytes requested) {
    chunk& used = (*this)[id];
    std::uint64_t const slot = used.slot();
    auto const state = used.get().not_cached();
    std::uint64_t const base = used.base;
    used.set_requested(requested);  // first: readers rely on it once the chunk is in use
    used.set(state);
    if (starts_ != nullptr) slots_->set_size(slot, requested);
    return {base, state.size()};
  }
  /// Marks an allocated chunk, which `find` found, as labelled.
  void set_labelled(found entry) {
    (*this)[entry.id].set_labelled();
    slots_->set_needs_chunk(entry.slot);
  }

  /// Frees a chunk, which `find` found.
  void set_free(found entry) {
    chunk& removed = (*this)[entry.id];
    removed.set_free();
    if (keeps_start_of(removed)) starts_->erase(removed.base, removed.size());
    {
      move const guard{*view_};
      slots_->erase(entry.slot, base_of(),
                    [this](chunk_id id, std::uint64_t slot) { (*this)[id].set_slot(slot); });
    }
    --in_use_;
  }

  /// Adds an allocation of `size` bytes that is a block of its own. Requires room.
  void add_allocation(std::uint64_t base, bytes size, bytes requested) {
    set_in_use(add(base, size, no_chunk, no_chunk), requested);
  }
  /// Removes such an allocation, which `find` found.
  void remove_allocation(found entry) {
    set_free(entry);
    remove(entry.id);
  }

  [[nodiscard]] std::size_t in_use() const { return in_use_; }
  /// Bytes of bookkeeping in resident pages. O(pages), by system calls.
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

  /// From now on `public_view().find` finds allocations. Nothing may be allocated yet. Throws
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
  /// From now on `public_view().find` also finds slices. Does nothing unless the table keeps
  /// starts.
  void keep_slices(slice_map* slices) {
    if (starts_ != nullptr) view_->slices = slices;
  }
  /// Makes room for the start bits of [base, base + size). Throws std::bad_alloc.
  void reserve_starts(std::uint64_t base, bytes size) {
    if (starts_ != nullptr && is_findable(base, size)) starts_->reserve(base, size, leaves_);
  }
  [[nodiscard]] view const& public_view() const { return *view_; }

  /// In the child of a fork: ends a move that a thread of the parent was making. From then on
  /// lookups find no allocation of this table, and no lookup waits for the end of the move.
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
  [[nodiscard]] bool keeps_start_of(chunk const& used) const {
    return starts_ != nullptr && is_findable(used.base, used.size());
  }

  /// Marks the time in which chunks or slots move, for readers (chunk_view::version).
  class move {
   public:
    explicit move(view& changed) : view_{changed} { view_.version = view_.version + 1; }
    ~move() { view_.version = view_.version + 1; }
    move(move&&) = delete;

   private:
    view& view_;
  };

  /// Whether `slots` slots suffice for one more chunk that is not free.
  [[nodiscard]] bool has_room(std::uint64_t slots) const { return (in_use_ + 1) * 4 <= slots * 3; }

  /// Replaces the hash table by a table for chunk numbers up to `numbers`, which is larger if the
  /// old table has no room.
  [[gnu::noinline]] void rehash(std::uint64_t numbers) {
    std::uint64_t const minimum =
        has_room(slot_count_) ? slot_count_ : slot_count_ + slot_count_ / 3;
    std::uint64_t const count =
        std::min(base_table::slots_for(std::max(minimum, base_table::min_slots(numbers))),
                 base_table::max_slots);
    if (!has_room(count)) throw std::bad_alloc{};  // a table cannot have more slots
    auto* const fresh = static_cast<base_table*>(
        type_stable_allocate(type_stable_use::slots, base_table::bytes_of(count)));
    fresh->lay_out(count, numbers);
    for_each([&](chunk_id id) {
      chunk& used = (*this)[id];
      if (used.is_free()) return;
      fresh->insert(used.base, id, used.requested(), keeps_start_of(used) && !used.is_labelled());
      if (!used.is_cached()) return;
      std::uint64_t const slot = fresh->find(used.base, base_of()).slot;
      used.set_slot(slot);
      if (starts_ != nullptr) fresh->set_unallocated(slot);
    });
    base_table* const old = slots_;
    move const guard{*view_};
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
      chunk const& source = (*this)[id];
      chunk& target = larger->begin()[id];
      target.base = source.base;
      target.prev = source.prev;
      target.next = source.next;
      target.link_prev_ = source.link_prev_;
      target.link_next_ = source.link_next_;
      target.size_ = source.size_;
    }
    larger->capacity = capacity;
    chunk_array* const old = chunks_;
    move const guard{*view_};
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
  chunk_id made_ = 0;           // numbers used so far
  chunk_id unused_ = no_chunk;  // list of removed chunks, by `next`
};

}  // namespace quarry::inline QUARRY_ABI::detail
