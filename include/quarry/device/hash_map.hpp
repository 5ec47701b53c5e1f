// SPDX-License-Identifier: Apache-2.0
// A map that many lanes change at once, in a table of fixed capacity.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/change_result.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <cstring>
#include <type_traits>

namespace quarry::inline QUARRY_ABI {

/// A place of a hash_map. Zeroed memory is a free place.
template <class Key, class Value>
struct hash_map_place {
  std::uint32_t state;  // atomic: how often it was taken << 2 | place_state
  Key key;              // Guarded by: `state`; written once, by the first lane that takes the place
  Value value;          // atomic
};

/// A map from keys to values of 4 or 8 bytes, passed by value: open addressing with linear probing,
/// entries inline.
///
/// Invariants:
///   1. a key has at most one place, for ever: between where it hashes to and its place no
///   place is empty;
///   2. a place goes from free to busy to full, and then between full, tombstone and busy; only a
///   free place gets a key.
/// So a key that was erased keeps its place, and comes back to it: `capacity` bounds the different
/// keys that were ever inserted since the memory was zeroed. That is what lets lanes read keys
/// without a lock; a map whose keys keep changing must be made anew from time to time. Use up to
/// 3/4 of the capacity: past that, searching gets long.
///
/// Any lane may call anything at any time. A lane waits only while another writes one value, and
/// calls nothing meanwhile. A value that points to memory is the caller's business: nobody may
/// follow it while who erased it frees it.
///
/// Costs: O(1) expected; O(capacity) for a key that is not there once the table is full.
///
/// Memory order. (F) publishes key and value with release, and what the lane did before it; (A)
/// acquires, and so reads the key, plain, after it was written. Later RMWs continue the release
/// sequence that (F) heads. (X) erases with release, after the value was read, and (T) takes the
/// place with acquire, before it is written again: the eraser gets the value that it erased. (Z)
/// writes the value with release and (G) reads it with acquire, so that (C) sees at least the state
/// under which a too new value was written, and `find` tries again.
template <class Key, class Value>
class hash_map_ref {
  static_assert(std::has_unique_object_representations_v<Key> && sizeof(Key) <= 8,
                "keys are compared and hashed by their bytes");
  static_assert(std::is_trivially_copyable_v<Value> && (sizeof(Value) == 4 || sizeof(Value) == 8),
                "values are atomics");

 public:
  using place = hash_map_place<Key, Value>;

  hash_map_ref() = default;

  /// A map in zeroed memory for `capacity` places, a power of two.
  QUARRY_HD hash_map_ref(place* places, std::uint32_t capacity)
      : places_{places}, capacity_{capacity} {}

  /// An empty map on a heap, with room for `capacity` keys at least; one without places if there is
  /// no memory. O(capacity).
  template <class Heap>
  [[nodiscard]] QUARRY_HD static hash_map_ref make(Heap const& heap, std::uint32_t capacity) {
    std::uint32_t const rounded = capacity <= 1 ? 1 : 2u << highest_one(capacity - 1);
    auto* const places = static_cast<place*>(heap.malloc(bytes{rounded} * sizeof(place)));
    if (places == nullptr) return {};
    std::memset(static_cast<void*>(places), 0, bytes{rounded} * sizeof(place));
    return {places, rounded};
  }

  /// Frees what `make` took. Requires that no other lane uses the map, through any copy.
  template <class Heap>
  QUARRY_HD void destroy(Heap const& heap) {
    heap.free(places_);
    *this = {};
  }

  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }

  /// `done`, or `duplicate`, `table_full`, with nothing changed.
  [[nodiscard]] QUARRY_HD change_result insert(Key key, Value value) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      place& here = place_at(key, step);
      simt::atomic_ref<std::uint32_t> const state{here.state};
      std::uint32_t seen = settled(here);
      while (kind(seen) == empty_place || (kind(seen) == tombstone && here.key == key)) {
        bool const is_new = kind(seen) == empty_place;
        std::uint32_t const taken =
            (seen | 3) + 1;  // one more time, and free_place, to which a state is added
        if (!state.compare_exchange(seen, taken + busy, simt::acquire)) {  // (T)
          seen = settled(here);
          continue;
        }
        if (is_new) here.key = key;
        simt::atomic_ref<Value>{here.value}.store(value, simt::release);  // (Z)
        state.store(taken + full, simt::release);                         // (F)
        return change_result::done;
      }
      if (here.key == key) return change_result::duplicate;
    }
    return change_result::table_full;
  }

  /// Whether the key is there; `value` is what it had at one moment of the call.
  [[nodiscard]] QUARRY_HD bool find(Key key, Value& value) const {
    place* const here = place_of(key);
    if (here == nullptr) return false;
    for (;;) {
      std::uint32_t const seen = settled(*here);
      if (kind(seen) != full) return false;
      value = simt::atomic_ref<Value>{here->value}.load(simt::acquire);  // (G)
      simt::atomic_ref<std::uint32_t> const state{here->state};
      if (state.load(simt::relaxed) == seen) return true;  // (C)
    }
  }

  /// Removes the key: `done`, and `value` is what it had, which no other lane gets; or `absent`.
  [[nodiscard]] QUARRY_HD change_result erase(Key key, Value& value) const {
    place* const here = place_of(key);
    if (here == nullptr) return change_result::absent;
    for (;;) {
      std::uint32_t seen = settled(*here);
      if (kind(seen) != full) return change_result::absent;
      Value const read = simt::atomic_ref<Value>{here->value}.load(simt::acquire);  // (G)
      simt::atomic_ref<std::uint32_t> const state{here->state};
      std::uint32_t const erased = seen - full + tombstone;
      if (state.compare_exchange(seen, erased, simt::release)) {  // (X)
        value = read;
        return change_result::done;
      }
    }
  }

  /// Calls `visit(key, value)` for this map's places `first`, `first` + `stride`, and so on, so
  /// that `stride` lanes see all.
  template <class Visit>
  QUARRY_HD void for_each(std::uint32_t first, std::uint32_t stride, Visit visit) const {
    for (std::uint64_t i = first; i < capacity_; i += stride) {
      place& here = places_[i];
      Value value;
      if (kind(settled(here)) != empty_place && find(here.key, value)) visit(here.key, value);
    }
  }

 private:
  static constexpr std::uint32_t empty_place = 0;  // nothing was ever there
  static constexpr std::uint32_t busy = 1;         // a lane writes it
  static constexpr std::uint32_t full = 2;
  static constexpr std::uint32_t tombstone = 3;  // its key was erased

  [[nodiscard]] QUARRY_HD static std::uint32_t kind(std::uint32_t state) { return state & 3; }

  [[nodiscard]] QUARRY_HD static std::uint32_t hash(Key key) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &key, sizeof(Key));
    return mix(static_cast<std::uint32_t>(bits) ^ mix(static_cast<std::uint32_t>(bits >> 32)));
  }
  [[nodiscard]] QUARRY_HD place& place_at(Key key, std::uint32_t step) const {
    return places_[(hash(key) + step) & (capacity_ - 1)];
  }

  /// The state, once nobody writes the place.
  [[nodiscard]] QUARRY_HD static std::uint32_t settled(place& here) {
    simt::atomic_ref<std::uint32_t> const state{here.state};
    for (;;) {
      std::uint32_t const seen = state.load(simt::acquire);  // (A)
      if (kind(seen) != busy) return seen;
      simt::pause();
    }
  }

  /// The place that the key has or had; null if it was never there.
  [[nodiscard]] QUARRY_HD place* place_of(Key key) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      place& here = place_at(key, step);
      if (kind(settled(here)) == empty_place) return nullptr;
      if (here.key == key) return &here;
    }
    return nullptr;
  }

  place* places_ = nullptr;
  std::uint32_t capacity_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
