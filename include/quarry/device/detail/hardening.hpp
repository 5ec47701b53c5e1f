// SPDX-License-Identifier: Apache-2.0
// The work of the hardened mode around malloc and free. Each function does nothing when its
// mitigation is off.
#pragma once

#include "quarry/device/detail/heap_internals.hpp"
#include "quarry/device/detail/heap_state.hpp"
#include "quarry/device/mitigations.hpp"

namespace quarry::inline QUARRY_ABI::detail::hardening {

inline constexpr std::uint32_t mark_bytes = 8;
inline constexpr std::uint64_t poison_pattern = 0xDBDBDBDBDBDBDBDBu;
inline constexpr bytes poison_limit = 4096;  // the maximum number of bytes that a free fills

/// The size to request from the heap for `size` usable bytes.
[[nodiscard]] QUARRY_HD constexpr bytes padded(bytes size) {
  if (!is_on(mitigation::canary)) return size;
  return size > ~bytes{0} - mark_bytes ? size : size + mark_bytes;
}

/// The bytes of an allocation of `size` bytes that the user may use.
[[nodiscard]] QUARRY_HD constexpr bytes usable(bytes size) {
  return is_on(mitigation::canary) ? size - mark_bytes : size;
}

/// The heap's information about an allocation.
struct record {
  bytes usable = 0;  // 0: not an allocation; a fault was reported
  bool is_slice = false;
  bool was_handed_out = true;  // false: a slice that is not allocated
  std::uint32_t formats = 0;   // how often its segment was cut into slices
};

template <class Heap>
[[nodiscard]] QUARRY_HD record look_up(Heap const& heap, heap_state& state, void* pointer) {
  record result;
  result.usable = heap.usable_size(pointer);
  if (result.usable == 0) return result;
  std::uint64_t const offset = reinterpret_cast<std::uint64_t>(pointer) - state.base;
  auto const segment = static_cast<std::uint32_t>(offset >> state.segment_shift);
  auto const segment_offset = static_cast<std::uint32_t>(offset & (state.segment_bytes() - 1));
  segment_use const use = state.segments[segment].load();
  result.is_slice = use.is_slices();
  if (!result.is_slice) return result;
  if constexpr (is_on(mitigation::poison)) result.formats = state.formats[segment];
  size_class const id = use.slices_class();
  result.was_handed_out =
      state.was_handed_out(id, segment, state.layouts[id].slice.by_size().quotient(segment_offset));
  return result;
}

/// The last 8 bytes of an allocation: one value while it is in use, another value after it was
/// freed.
///
/// Both values depend on the address, on how often its segment was cut into slices (with poison
/// only), and on a number that changes with each reset. So bytes from an earlier use of the memory
/// do not pass as a mark of this use. The marks detect mistakes, not attacks: a reader of one mark
/// can compute the other marks.
///
/// The value changes by exchange (M), so that of two frees of one pointer, the later free sees the
/// mark of the earlier free.
class mark {
 public:
  QUARRY_HD mark(heap_state const& state, void* pointer, record const& allocation)
      : word_{*reinterpret_cast<std::uint64_t*>(static_cast<char*>(pointer) + allocation.usable)},
        live_{reinterpret_cast<std::uint64_t>(pointer) * 0x9e3779b97f4a7c15u ^
              allocation.formats * 0xd6e8feb86659fd93u ^ std::uint64_t{state.canary_secret} << 32 ^
              state.canary_secret} {}

  /// Writes the mark of an allocation in use. Returns whether the memory was freed before.
  [[nodiscard]] QUARRY_HD bool set_live() const {
    return word_.exchange(live_, simt::relaxed) == ~live_;  // (M)
  }

  enum class found { live, freed, overwritten };
  [[nodiscard]] QUARRY_HD found set_freed() const {
    std::uint64_t const previous = word_.exchange(~live_, simt::acq_rel);  // (M)
    return previous == live_ ? found::live : previous == ~live_ ? found::freed : found::overwritten;
  }
  [[nodiscard]] QUARRY_HD bool is_freed() const {
    return word_.load(simt::relaxed) == ~live_;  // (M)
  }

 private:
  simt::atomic_ref<std::uint64_t> word_;
  std::uint64_t live_;
};

/// The number of words that free fills. Free fills only slices, not large allocations.
[[nodiscard]] QUARRY_HD constexpr bytes poisoned(record const& allocation) {
  if (!allocation.is_slice) return 0;
  return (allocation.usable < poison_limit ? allocation.usable : poison_limit) /
         sizeof(std::uint64_t);
}

[[nodiscard]] QUARRY_HD inline bool is_poisoned(void const* pointer, record const& allocation) {
  auto const* const words = static_cast<std::uint64_t const*>(pointer);
  bool is_intact = true;
  for (bytes i = 0; i < poisoned(allocation); ++i)
    is_intact = is_intact && words[i] == poison_pattern;
  return is_intact;
}

QUARRY_HD inline void fill_with_poison(void* pointer, record const& allocation) {
  auto* const words = static_cast<std::uint64_t*>(pointer);
  for (bytes i = 0; i < poisoned(allocation); ++i) words[i] = poison_pattern;
}

/// Prepares memory that malloc found. Returns the result of malloc.
template <class Heap>
[[nodiscard]] QUARRY_HD void* prepare(Heap const& heap, heap_state& state, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    if (pointer == nullptr) return nullptr;
    record const allocation = look_up(heap, state, pointer);
    bool const freed_before = mark{state, pointer, allocation}.set_live();
    if constexpr (is_on(mitigation::poison)) {
      if (freed_before && !is_poisoned(pointer, allocation)) {
        heap_internals::report(heap, fault_kind::use_after_free, allocation.usable, pointer);
      }
    }
  }
  return pointer;
}

/// Checks an allocation that leaves the quarantine, before the heap frees it. If the user wrote to
/// it since the free, reports that once.
template <class Heap>
QUARRY_HD void inspect(Heap const& heap, heap_state& state, void* pointer) {
  if constexpr (is_on(mitigation::poison)) {
    record const allocation = look_up(heap, state, pointer);
    mark const current{state, pointer, allocation};
    if (current.is_freed() && is_poisoned(pointer, allocation)) return;
    heap_internals::report(heap, fault_kind::use_after_free, allocation.usable, pointer);
    fill_with_poison(pointer, allocation);
    (void)current.set_freed();
  }
}

/// Puts an allocation into the quarantine. Returns the allocation that leaves the quarantine in
/// exchange, or nullptr if no allocation leaves.
template <class Heap>
[[nodiscard]] QUARRY_HD void* quarantine(Heap const& heap, heap_state& state, void* pointer) {
  simt::atomic_ref<std::uint32_t> next{state.quarantine_next};
  simt::atomic_ref<std::uint64_t> const entry{
      state.quarantine[next.fetch_add(1, simt::relaxed) % quarantine_entries]};  // (M)
  void* const leaving = reinterpret_cast<void*>(
      entry.exchange(reinterpret_cast<std::uint64_t>(pointer), simt::acq_rel));  // (M)
  if (leaving != nullptr) inspect(heap, state, leaving);
  return leaving;
}

/// Checks the pointer passed to free. Returns the allocation that the heap must free now: this
/// allocation, or the allocation that leaves the quarantine. Returns nullptr if there is none.
template <class Heap>
[[nodiscard]] QUARRY_HD void* retire(Heap const& heap, heap_state& state, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    record const allocation = look_up(heap, state, pointer);
    if (allocation.usable == 0) return nullptr;
    auto const found = allocation.was_handed_out ? mark{state, pointer, allocation}.set_freed()
                                                 : mark::found::freed;
    if (found == mark::found::freed) {
      heap_internals::report(heap, fault_kind::double_free, allocation.usable, pointer);
      return nullptr;
    }
    if (found == mark::found::overwritten)
      heap_internals::report(heap, fault_kind::overrun, allocation.usable, pointer);
    if constexpr (is_on(mitigation::poison)) fill_with_poison(pointer, allocation);
    if constexpr (is_on(mitigation::quarantine)) {
      if (allocation.is_slice && allocation.usable <= quarantine_limit)
        return quarantine(heap, state, pointer);
    }
  }
  return pointer;
}

/// Whether the user freed an allocation that the heap has not freed yet: the quarantine may retain
/// it.
template <class Heap>
[[nodiscard]] QUARRY_HD bool was_freed([[maybe_unused]] Heap const& heap,
                                       [[maybe_unused]] heap_state& state,
                                       [[maybe_unused]] void* pointer) {
  if constexpr (is_on(mitigation::quarantine)) {
    record const allocation = look_up(heap, state, pointer);
    return mark{state, pointer, allocation}.is_freed();
  }
  return false;
}

/// Frees all allocations in the quarantine, because a malloc found no memory. `lanes` lanes share
/// the work; the caller is number `lane` of them. These lanes then retry once. Other lanes may do
/// the same at this moment and take allocations out of the quarantine first. So a lane may fail
/// although all memory is about to be free.
template <class Heap>
QUARRY_HD void empty_quarantine(Heap const& heap, heap_state& state, std::uint32_t lane = 0,
                                std::uint32_t lanes = 1) {
  if constexpr (is_on(mitigation::quarantine)) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = lane; i < quarantine_entries; i += lanes) {
      simt::atomic_ref<std::uint64_t> const entry{state.quarantine[i]};
      if (entry.load(simt::relaxed) == 0) continue;                                     // (M)
      void* const leaving = reinterpret_cast<void*>(entry.exchange(0, simt::acq_rel));  // (M)
      if (leaving == nullptr) continue;
      inspect(heap, state, leaving);
      heap_internals::free_now(heap, leaving);
    }
  }
}

}  // namespace quarry::inline QUARRY_ABI::detail::hardening
