// SPDX-License-Identifier: Apache-2.0
// A map with fixed capacity that many lanes change at once.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/change_result.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <cstring>
#include <type_traits>

namespace quarry::inline QUARRY_ABI {

/// A cell in the table of a hash_map. Zeroed memory is an empty cell.
template <class Key, class Value>
struct hash_map_cell {
  std::uint32_t state;  // atomic: the number of insertions << 2 | the kind of the cell
  Key key;              // Guarded by: `state`; written once, when the cell is first claimed
  Value value;          // atomic
};

/// A map from keys of at most 8 bytes to values of 4 or 8 bytes, passed by value: open addressing
/// with linear probing, entries inline.
///
/// Invariants:
///   1. a key has at most one cell and keeps it; no cell between the key's hash position and its
///      cell is empty;
///   2. a cell changes from empty to busy to full, and then between full, tombstone and busy; only
///      an empty cell gets a key.
/// So an erased key keeps its cell, and a later insertion of the key reuses the cell. `capacity`
/// limits the number of different keys inserted since the memory was zeroed. In return, lanes read
/// keys without a lock. A map whose keys keep changing must be rebuilt from time to time. Use at
/// most 3/4 of the capacity; beyond that, probe sequences get long.
///
/// Any lane may call any function at any time, except `destroy`. A lane waits only while another
/// lane writes one value; the writer calls no function meanwhile. If a value is a pointer, the
/// caller must ensure that no lane dereferences it while the lane that erased it frees its target.
///
/// Costs: O(1) expected; O(capacity) for a missing key once the table is full.
///
/// Problem. A lookup reads a value that other lanes erase and insert again.
/// Re-check. A cell's state counts its insertions. (C) and (X) succeed only if the state has not
/// changed since before (G); else the lane tries again. The count wraps after 2^30 insertions of
/// one key; a lane that sleeps during exactly so many takes an old value for the current value.
///
///   label  statement                            partner  guarantee
///   (F)    stores state `full`, release         (A)      key, value and the lane's earlier writes;
///   (A)    reads the state, acquire             (F)      RMWs in between continue the release
///   (T)    sets state `busy`, acquire           (X)      the eraser has read its value before the
///   (X)    sets state `tombstone`, release      (T)      key's next insertion writes
///   (Z)    stores the value, release            (G)      if (G) reads a value that is too new, (C)
///   (G)    reads the value, acquire             (Z)      sees at least the state under which that
///   (C)    reads the state again                (T)      value was written
template <class Key, class Value>
class hash_map_ref {
  static_assert(std::has_unique_object_representations_v<Key> && sizeof(Key) <= 8,
                "keys are compared and hashed by their bytes");
  static_assert(std::is_trivially_copyable_v<Value> && (sizeof(Value) == 4 || sizeof(Value) == 8),
                "values are atomics");

 public:
  using cell = hash_map_cell<Key, Value>;

  hash_map_ref() = default;

  /// Makes a map in zeroed memory for `capacity` cells, a power of two.
  QUARRY_HD hash_map_ref(cell* cells, std::uint32_t capacity)
      : cells_{cells}, capacity_{capacity} {}

  /// Makes an empty map on a heap with room for at least `capacity` keys. Returns a map without
  /// cells if there is no memory, or if `capacity` exceeds 2^31. O(capacity).
  template <class Heap>
  [[nodiscard]] QUARRY_HD static hash_map_ref make(Heap const& heap, std::uint32_t capacity) {
    if (capacity > 1u << 31) return {};
    std::uint32_t const granted = capacity <= 1 ? 1 : 2u << highest_one(capacity - 1);
    auto* const cells = static_cast<cell*>(heap.malloc(bytes{granted} * sizeof(cell)));
    if (cells == nullptr) return {};
    std::memset(static_cast<void*>(cells), 0, bytes{granted} * sizeof(cell));
    return {cells, granted};
  }

  /// Frees the memory that `make` allocated. No other lane may use the map or a copy of it.
  template <class Heap>
  QUARRY_HD void destroy(Heap const& heap) {
    heap.free(cells_);
    *this = {};
  }

  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }

  /// Inserts the key and returns `done`. Returns `duplicate` if the map has the key, or
  /// `table_full` if there is no cell, and then changes nothing.
  [[nodiscard]] QUARRY_HD change_result insert(Key key, Value value) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      cell& target = cell_at(key, step);
      simt::atomic_ref<std::uint32_t> const state{target.state};
      std::uint32_t current = await_state(target);
      while (kind(current) == empty_cell || (kind(current) == tombstone && target.key == key)) {
        bool const is_new = kind(current) == empty_cell;
        std::uint32_t const next_state =
            (current | 3) + 1;  // increments the number of insertions and clears the kind
        if (!state.compare_exchange(current, next_state + busy, simt::acquire)) {  // (T)
          current = await_state(target);
          continue;
        }
        if (is_new) target.key = key;
        simt::atomic_ref{target.value}.store(value, simt::release);  // (Z)
        state.store(next_state + full, simt::release);               // (F)
        return change_result::done;
      }
      if (target.key == key) return change_result::duplicate;
    }
    return change_result::table_full;
  }

  /// Returns whether the map has the key. Sets `value` to the key's value at one moment of the
  /// call. If the key was erased meanwhile, returns false, and `value` may have changed.
  [[nodiscard]] QUARRY_HD bool find(Key key, Value& value) const {
    cell* const target = cell_of(key);
    if (target == nullptr) return false;
    for (;;) {
      std::uint32_t const current = await_state(*target);
      if (kind(current) != full) return false;
      value = simt::atomic_ref{target->value}.load(simt::acquire);  // (G)
      simt::atomic_ref<std::uint32_t> const state{target->state};
      if (state.load(simt::relaxed) == current) return true;  // (C)
    }
  }

  /// Removes the key, sets `value` to its value, which no other lane gets, and returns `done`.
  /// Returns `absent` if the map does not have the key.
  [[nodiscard]] QUARRY_HD change_result erase(Key key, Value& value) const {
    cell* const target = cell_of(key);
    if (target == nullptr) return change_result::absent;
    for (;;) {
      std::uint32_t current = await_state(*target);
      if (kind(current) != full) return change_result::absent;
      Value const read = simt::atomic_ref{target->value}.load(simt::acquire);  // (G)
      simt::atomic_ref<std::uint32_t> const state{target->state};
      std::uint32_t const erased = current - full + tombstone;
      if (state.compare_exchange(current, erased, simt::release)) {  // (X)
        value = read;
        return change_result::done;
      }
    }
  }

  /// Calls `visit(key, value)` for the cells `first`, `first` + `stride`, and so on, so that
  /// `stride` lanes together visit all keys.
  template <class Visit>
  QUARRY_HD void for_each(std::uint32_t first, std::uint32_t stride, Visit visit) const {
    for (std::uint64_t i = first; i < capacity_; i += stride) {
      cell& target = cells_[i];
      Value value;
      if (kind(await_state(target)) != empty_cell && find(target.key, value))
        visit(target.key, value);
    }
  }

 private:
  static constexpr std::uint32_t empty_cell = 0;  // never had a key
  static constexpr std::uint32_t busy = 1;        // a lane is writing the cell
  static constexpr std::uint32_t full = 2;
  static constexpr std::uint32_t tombstone = 3;  // the key was erased

  [[nodiscard]] QUARRY_HD static std::uint32_t kind(std::uint32_t state) { return state & 3; }

  [[nodiscard]] QUARRY_HD static std::uint32_t hash(Key key) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &key, sizeof(Key));
    return mix(static_cast<std::uint32_t>(bits) ^ mix(static_cast<std::uint32_t>(bits >> 32)));
  }
  [[nodiscard]] QUARRY_HD cell& cell_at(Key key, std::uint32_t step) const {
    return cells_[(hash(key) + step) & (capacity_ - 1)];
  }

  /// Waits until no lane writes the cell, and returns its state.
  [[nodiscard]] QUARRY_HD static std::uint32_t await_state(cell& target) {
    simt::atomic_ref<std::uint32_t> const state{target.state};
    for (;;) {
      std::uint32_t const current = state.load(simt::acquire);  // (A)
      if (kind(current) != busy) return current;
      simt::pause();
    }
  }

  /// The cell that the key has or had; null if the key was never inserted.
  [[nodiscard]] QUARRY_HD cell* cell_of(Key key) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      cell& target = cell_at(key, step);
      if (kind(await_state(target)) == empty_cell) return nullptr;
      if (target.key == key) return &target;
    }
    return nullptr;
  }

  cell* cells_ = nullptr;
  std::uint32_t capacity_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
