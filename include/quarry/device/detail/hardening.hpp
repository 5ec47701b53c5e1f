// SPDX-License-Identifier: Apache-2.0
// The work of the hardened mode around malloc and free. Each function does nothing when its
// mitigation is off.
#pragma once

#include "quarry/device/detail/free_path.hpp"

namespace quarry::inline QUARRY_ABI::detail::hardening {

inline constexpr std::uint32_t mark_bytes = 8;
inline constexpr std::uint64_t poison_pattern = 0xDBDBDBDBDBDBDBDBu;
inline constexpr bytes poison_limit = 4096;  // the maximum number of bytes that a free fills

/// The size to request from the heap for `size` usable bytes.
[[nodiscard]] QUARRY_HD constexpr bytes padded(bytes size) {
  if (!is_on(mitigation::canary)) return size;
  return size > ~bytes{0} - mark_bytes ? size : size + mark_bytes;
}

/// The bytes of an allocation of `size` bytes that the user may use; of 0 bytes, 0.
[[nodiscard]] QUARRY_HD constexpr bytes usable(bytes size) {
  return is_on(mitigation::canary) && size != 0 ? size - mark_bytes : size;
}

/// The heap's information about an allocation.
struct record {
  bytes usable = 0;  // 0: not an allocation; `look_up` has reported a fault
  bool is_slice = false;
  bool is_allocated = true;   // false: a slice that is free or was never allocated
  std::uint32_t formats = 0;  // how often its segment was cut into slices
};

[[nodiscard]] QUARRY_HD inline record record_of(heap_handle const& heap, location const& found) {
  record result;
  result.usable = usable(size_of(heap, found));
  result.is_slice = !found.is_large;
  if (result.usable == 0 || !result.is_slice) return result;
  if constexpr (is_on(mitigation::poison)) result.formats = heap.state().formats[found.segment];
  result.is_allocated = simt::indirect_call(&is_allocated, heap.state(), found.use.slices_class(),
                                            found.segment, found.slice);
  return result;
}

[[nodiscard]] QUARRY_HD inline record look_up(heap_handle const& heap, void* pointer) {
  return record_of(heap, locate_or_report(heap, pointer));
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
[[nodiscard]] QUARRY_HD inline void* prepare(heap_handle const& heap, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    if (pointer == nullptr) return nullptr;
    record const allocation = look_up(heap, pointer);
    bool const freed_before = mark{heap.state(), pointer, allocation}.set_live();
    if constexpr (is_on(mitigation::poison)) {
      if (freed_before && !is_poisoned(pointer, allocation)) {
        heap.report(fault_kind::use_after_free, allocation.usable, pointer);
      }
    }
  }
  return pointer;
}

/// Checks an allocation that leaves the quarantine, before the heap frees it. If the user wrote to
/// it since the free, reports that once.
QUARRY_HD inline void inspect(heap_handle const& heap, void* pointer) {
  if constexpr (is_on(mitigation::poison)) {
    record const allocation = look_up(heap, pointer);
    mark const current{heap.state(), pointer, allocation};
    if (current.is_freed() && is_poisoned(pointer, allocation)) return;
    heap.report(fault_kind::use_after_free, allocation.usable, pointer);
    fill_with_poison(pointer, allocation);
    (void)current.set_freed();
  }
}

/// Puts an allocation into the quarantine. Returns the allocation that leaves the quarantine in
/// exchange, or nullptr if no allocation leaves.
[[nodiscard]] QUARRY_HD inline void* quarantine(heap_handle const& heap, void* pointer) {
  simt::atomic_ref<std::uint32_t> next{heap.state().quarantine_next};
  simt::atomic_ref<std::uint64_t> const entry{
      heap.state().quarantine[next.fetch_add(1, simt::relaxed) % quarantine_entries]};  // (M)
  void* const leaving = reinterpret_cast<void*>(
      entry.exchange(reinterpret_cast<std::uint64_t>(pointer), simt::acq_rel));  // (M)
  if (leaving != nullptr) inspect(heap, leaving);
  return leaving;
}

/// Checks the pointer passed to free. Returns the allocation that the heap must free now: this
/// allocation, or the allocation that leaves the quarantine. Returns nullptr if there is none.
[[nodiscard]] QUARRY_HD inline void* retire(heap_handle const& heap, void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    record const allocation = look_up(heap, pointer);
    if (allocation.usable == 0) return nullptr;
    auto const found = allocation.is_allocated ? mark{heap.state(), pointer, allocation}.set_freed()
                                               : mark::found::freed;
    if (found == mark::found::freed) {
      heap.report(fault_kind::double_free, allocation.usable, pointer);
      return nullptr;
    }
    if (found == mark::found::overwritten)
      heap.report(fault_kind::overrun, allocation.usable, pointer);
    if constexpr (is_on(mitigation::poison)) fill_with_poison(pointer, allocation);
    if constexpr (is_on(mitigation::quarantine)) {
      if (allocation.is_slice && allocation.usable <= quarantine_limit)
        return quarantine(heap, pointer);
    }
  }
  return pointer;
}

/// Whether the user freed the allocation at `pointer`, or never allocated it. The quarantine may
/// retain memory that the user freed.
[[nodiscard]] QUARRY_HD inline bool was_freed([[maybe_unused]] heap_handle const& heap,
                                              [[maybe_unused]] void* pointer) {
  if constexpr (is_on(mitigation::canary)) {
    record const allocation = record_of(heap, locate<entry_source::memory>(heap, pointer));
    return allocation.usable == 0 || !allocation.is_allocated ||
           mark{heap.state(), pointer, allocation}.is_freed();
  }
  return false;
}

/// Frees all allocations in the quarantine, because a malloc found no memory. `lanes` lanes share
/// the work; the caller is number `lane` of them. These lanes then retry once. Other lanes may do
/// the same at this moment and take allocations out of the quarantine first. So a lane may fail
/// although all memory is about to be free.
QUARRY_HD inline void empty_quarantine(heap_handle const& heap, std::uint32_t lane = 0,
                                       std::uint32_t lanes = 1) {
  if constexpr (is_on(mitigation::quarantine)) {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = lane; i < quarantine_entries; i += lanes) {
      simt::atomic_ref<std::uint64_t> const entry{heap.state().quarantine[i]};
      if (entry.load(simt::relaxed) == 0) continue;                                     // (M)
      void* const leaving = reinterpret_cast<void*>(entry.exchange(0, simt::acq_rel));  // (M)
      if (leaving == nullptr) continue;
      inspect(heap, leaving);
      free_path::free_now(heap, leaving);
    }
  }
}

}  // namespace quarry::inline QUARRY_ABI::detail::hardening
