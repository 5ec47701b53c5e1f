// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Maps the address of a part to its superblock, for parts without headers: a hash table of fixed
/// capacity with open addressing (after GPU MPI coalescing, "no-header version").
///
/// A key lies in one of the `window` slots from its hash position. A lookup ends at a slot that was
/// never used. Removed keys leave a slot that can be reused. A key is in the table at most once,
/// because an address has one owner.
///
/// Costs: insert, find and remove are wait-free and O(window) at worst. A lookup of a present key
/// is O(1) while less than about three quarters of the slots are taken. A lookup of a missing key
/// is O(1) while some slots were never used.
///
/// A slot's value is Guarded by: the lane that set the slot's key to `busy` (B).
///
///   label  statement                        partner  guarantee
///   (B)    sets a key to `busy`, acquire    (X)      the slot's previous user has read the value
///   (M)    stores the key, release          (F)      publishes the value
///   (F)    reads a key, acquire             (M)      sees the value
///   (X)    removes a key, acq_rel           (X)      only one of two removals succeeds
///   (L)    reads a key for (B), or a value           none; another lane may remove the key
///                                                    meanwhile, in a double free
class superblock_map {
 public:
  struct slot {
    std::uint64_t key;
    std::uint64_t value;
  };
  static constexpr std::uint32_t window = 64;

  superblock_map() = default;
  /// Makes a map of `capacity` zeroed slots. `capacity` is a power of two, or 0 for no map.
  QUARRY_HD superblock_map(slot* slots, std::uint32_t capacity)
      : slots_{slots}, capacity_{capacity} {}

  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }

  /// Inserts a part. Returns false if the key's window is full.
  [[nodiscard]] QUARRY_HD bool insert(void const* part, void* superblock) {
    auto const key = reinterpret_cast<std::uint64_t>(part);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < width(); ++i) {
      slot& entry = slot_of(key, i);
      simt::atomic_ref<std::uint64_t> state{entry.key};
      std::uint64_t found = state.load(simt::relaxed);  // (L) (B) decides
      if (found != never_used && found != removed) continue;
      if (!state.compare_exchange(found, busy, simt::acquire)) continue;  // (B)
      simt::atomic_ref{entry.value}.store(reinterpret_cast<std::uint64_t>(superblock),
                                          simt::relaxed);  // (L)
      state.store(key, map_insert_order);                  // (M)
      return true;
    }
    return false;
  }

  /// Returns the superblock of `part`, or nullptr if the map does not have the part.
  [[nodiscard]] QUARRY_HD void* find(void const* part) {
    slot* const entry = slot_with(part);
    return entry == nullptr ? nullptr : value_of(*entry);
  }

  /// Removes `part` and returns its superblock. Returns nullptr if the map does not have the part,
  /// or if another lane removes it first.
  [[nodiscard]] QUARRY_HD void* remove(void const* part) {
    slot* const entry = slot_with(part);
    if (entry == nullptr) return nullptr;
    void* const result = value_of(*entry);
    auto key = reinterpret_cast<std::uint64_t>(part);
    simt::atomic_ref<std::uint64_t> const shared{entry->key};
    return shared.compare_exchange(key, removed, simt::acq_rel) ? result : nullptr;  // (X)
  }

 private:
  static constexpr std::uint64_t never_used = 0;
  static constexpr std::uint64_t removed = 1;
  static constexpr std::uint64_t busy = 2;  // a lane is writing the slot's value

  [[nodiscard]] QUARRY_HD std::uint32_t width() const {
    return capacity_ < window ? capacity_ : window;
  }
  [[nodiscard]] QUARRY_HD slot& slot_of(std::uint64_t key, std::uint32_t i) const {
    return slots_[(mix(static_cast<std::uint32_t>(key >> 4) ^
                       mix(static_cast<std::uint32_t>(key >> 36))) +
                   i) &
                  (capacity_ - 1)];
  }
  [[nodiscard]] QUARRY_HD static void* value_of(slot& entry) {
    return reinterpret_cast<void*>(simt::atomic_ref{entry.value}.load(simt::relaxed));  // (L)
  }
  [[nodiscard]] QUARRY_HD slot* slot_with(void const* part) const {
    auto const key = reinterpret_cast<std::uint64_t>(part);
    if (key <= busy) return nullptr;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < width(); ++i) {
      slot& entry = slot_of(key, i);
      std::uint64_t const found = simt::atomic_ref{entry.key}.load(map_find_order);  // (F)
      if (found == key) return &entry;
      if (found == never_used) return nullptr;
    }
    return nullptr;
  }

  slot* slots_ = nullptr;
  std::uint32_t capacity_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
