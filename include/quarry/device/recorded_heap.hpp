// SPDX-License-Identifier: Apache-2.0
// Records what kernels allocate from a heap. The host reads the record between launches.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/device/heap.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/clock.hpp"
#include "quarry/simt/lane_group.hpp"

#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// `fail`: an allocation that returned nullptr.
enum class heap_event_kind : std::uint32_t { allocate, deallocate, fail };

/// One call of a kernel.
struct heap_event {
  std::uint64_t time;     ///< `simt::clock_ns`
  std::uint64_t address;  ///< the address of the allocation; 0 for `fail`
  bytes size;             ///< requested bytes; 0 for `deallocate`
  heap_event_kind kind;
  /// CUDA: the multiprocessor. CPU: `simt::warp_hint()`, by which warps use different buffers.
  std::uint32_t processor;
};

namespace detail {

/// The number of calls of one multiprocessor. It still grows when the buffer is full, and wraps
/// after 2^64 calls. Each count has a cache line of its own.
struct alignas(128) heap_call_count {
  std::uint64_t calls = 0;
};

}  // namespace detail

/// A kernel's handle to a heap whose calls are recorded: 32 bytes, passed by value. `malloc` and
/// `free` are those of heap_ref, and each adds an event to a buffer of its multiprocessor. Lanes
/// that call together share one atomic operation for their events.
///
/// Memory order. (N) orders nothing: each lane writes an event of its own, and the host reads them
/// after the kernel has ended.
class recorded_heap_ref {
 public:
  recorded_heap_ref() = default;
  /// `counts` has `buffers` elements. `capacity` events for each buffer follow them in memory.
  recorded_heap_ref(heap_ref heap, detail::heap_call_count* counts, std::uint32_t buffers,
                    std::uint32_t capacity)
      : heap_{heap}, counts_{counts}, buffers_{buffers}, capacity_{capacity} {}

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    void* const result = heap_.malloc(size);
    auto const kind = result == nullptr ? heap_event_kind::fail : heap_event_kind::allocate;
    add(reinterpret_cast<std::uint64_t>(result), size, kind);
    return result;
  }
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr) return;
    add(reinterpret_cast<std::uint64_t>(pointer), 0, heap_event_kind::deallocate);
    heap_.free(pointer);
  }
  /// The heap itself. Its calls are not recorded.
  [[nodiscard]] QUARRY_HD heap_ref heap() const { return heap_; }

 private:
  QUARRY_HD void add(std::uint64_t address, bytes size, heap_event_kind kind) const {
    std::uint32_t const owner = simt::processor();
    // the lanes of a warp share a multiprocessor, but their handles may differ
    auto const group = simt::lane_group::coalesced<class heap_event_site>().match(
        reinterpret_cast<std::uint64_t>(counts_));
    std::uint32_t const number = owner % buffers_;
    std::uint64_t first = 0;
    if (group.is_leader())
      first =
          simt::atomic_ref{counts_[number].calls}.fetch_add(group.size(), simt::relaxed);  // (N)
    std::uint64_t const index = group.broadcast(first) + group.rank();
    if (index >= capacity_) return;
    auto* const events = reinterpret_cast<heap_event*>(counts_ + buffers_);
    events[std::uint64_t{number} * capacity_ + index] = {simt::clock_ns(), address, size, kind,
                                                         owner};
  }

  heap_ref heap_;
  detail::heap_call_count* counts_ = nullptr;
  std::uint32_t buffers_ = 1, capacity_ = 0;
};

struct heap_recorder_options {
  std::uint32_t buffers = 132;  ///< if the GPU has more multiprocessors, they share buffers
  std::uint32_t events_per_buffer = 16'384;
};

/// Owns the buffers of a recorded heap: 32 bytes for each event. Kernels get `ref()`. Calls through
/// the heap's own refs are not recorded and have no additional cost. A full buffer drops events,
/// and `lost` counts them. Not thread-safe; no kernel may use the refs during a call of a member
/// function.
class QUARRY_API heap_recorder {
 public:
  /// The heap must outlive the recorder. Throws `bad_argument` unless both options are from 1 to
  /// 2^24, `out_of_memory` and `resource_failed`.
  explicit heap_recorder(heap& recorded, heap_recorder_options const& options = {});
  ~heap_recorder();
  heap_recorder(heap_recorder&&) noexcept;
  heap_recorder& operator=(heap_recorder&&) noexcept;

  /// Valid while the recorder exists.
  [[nodiscard]] recorded_heap_ref ref() const;

  /// Calls `each(heap_event)` for the events since the last `drain`, and empties the buffers.
  ///
  /// Events are sorted by time. If several events have the same time, the free of an address comes
  /// before its next allocation. O(events log events), and quadratic in the events of one time. The
  /// host's memory has all drained events during the call.
  template <class Each>
  void drain(Each const& each) {
    for (heap_event const& event : take()) each(event);
  }

  /// The number of events that were dropped because their buffer was full, over all drains.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  /// The events of all buffers in the order of `drain`. The buffers are empty afterwards.
  [[nodiscard]] std::vector<heap_event> take();

  class implementation;

  implementation* implementation_;  // owned
};

}  // namespace quarry::inline QUARRY_ABI
