// SPDX-License-Identifier: Apache-2.0
// What the hardened mode does around malloc and free. Everything here is nothing when its mitigation is off.
#pragma once

#include "quarry/device/heap_state.hpp"
#include "quarry/device/mitigations.hpp"

namespace quarry::hardening {

inline constexpr std::uint32_t mark_bytes = 8;
inline constexpr std::uint64_t poison_pattern = 0xDBDBDBDBDBDBDBDBu;
inline constexpr bytes poison_limit = 4096;  // of a large allocation only this much is filled

/// What must be asked of the heap for `size` usable bytes.
[[nodiscard]] QUARRY_HD constexpr bytes padded(bytes size) {
  if (!is_on(mitigation::canary)) return size;
  return size > ~bytes{0} - mark_bytes ? size : size + mark_bytes;
}

/// What a user may use of `held` bytes.
[[nodiscard]] QUARRY_HD constexpr bytes usable(bytes held) { return is_on(mitigation::canary) ? held - mark_bytes : held; }

/// The last 8 bytes of an allocation: one value while it is in use, another once it was freed.
///
/// Changed by exchange (M), so that of two frees of one pointer one sees the other.
class mark {
 public:
  QUARRY_HD mark(heap_state const& state, void* pointer, bytes usable_bytes)
      : at_{*reinterpret_cast<std::uint64_t*>(static_cast<char*>(pointer) + usable_bytes)},
        live_{reinterpret_cast<std::uint64_t>(pointer) * 0x9e3779b97f4a7c15u ^ std::uint64_t{state.secret} << 32 ^ state.secret} {}

  /// Writes the mark of an allocation in use; gives whether the memory was freed before.
  [[nodiscard]] QUARRY_HD bool set_live() const { return at_.exchange(live_, simt::relaxed) == ~live_; }  // (M)

  enum class found { live, freed, overwritten };
  [[nodiscard]] QUARRY_HD found set_freed() const {
    std::uint64_t const before = at_.exchange(~live_, simt::acq_rel);  // (M)
    return before == live_ ? found::live : before == ~live_ ? found::freed : found::overwritten;
  }

 private:
  simt::atomic_ref<std::uint64_t> at_;
  std::uint64_t live_;
};

[[nodiscard]] QUARRY_HD constexpr bytes poisoned(bytes usable_bytes) {
  return (usable_bytes < poison_limit ? usable_bytes : poison_limit) / 8;
}

/// Called with what malloc found; gives what malloc returns.
template <class Heap>
[[nodiscard]] QUARRY_HD void* prepare(Heap const& heap, heap_state& state, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    if (pointer == nullptr) return nullptr;
    bytes const held = heap.usable_size(pointer);
    bool const freed_before = mark{state, pointer, held}.set_live();
    if constexpr (is_on(mitigation::poison)) {
      auto const* words = static_cast<std::uint64_t const*>(pointer);
      bool untouched = true;
      for (bytes i = 0; freed_before && i < poisoned(held); ++i) untouched = untouched && words[i] == poison_pattern;
      if (!untouched) heap.report(fault_kind::use_after_free, held, pointer);
    }
  }
  return pointer;
}

/// Called with what free was given; gives what is to be released now, if anything.
template <class Heap>
[[nodiscard]] QUARRY_HD void* retire(Heap const& heap, heap_state& state, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    bytes const held = heap.usable_size(pointer);
    if (held == 0) return nullptr;  // reported
    auto const found = mark{state, pointer, held}.set_freed();
    if (found == mark::found::freed) {
      heap.report(fault_kind::double_free, held, pointer);
      return nullptr;
    }
    if (found == mark::found::overwritten) heap.report(fault_kind::overflow, held, pointer);
    if constexpr (is_on(mitigation::poison)) {
      auto* words = static_cast<std::uint64_t*>(pointer);
      for (bytes i = 0; i < poisoned(held); ++i) words[i] = poison_pattern;
    }
  }
  if constexpr (is_on(mitigation::quarantine)) {
    std::uint32_t const turn = simt::atomic_ref<std::uint32_t>{state.quarantine_next}.fetch_add(1, simt::relaxed);  // (M)
    simt::atomic_ref<std::uint64_t> place{state.quarantine[turn % quarantine_slots]};
    return reinterpret_cast<void*>(place.exchange(reinterpret_cast<std::uint64_t>(pointer), simt::acq_rel));  // (M)
  }
  return pointer;
}

}  // namespace quarry::hardening
