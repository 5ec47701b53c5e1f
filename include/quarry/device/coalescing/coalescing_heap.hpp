// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/coalescing/coalescing_ref.hpp"
#include "quarry/device/detail/kernel_memory.hpp"

#include <bit>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI {

struct coalescing_options {
  /// The maximum number of parts without headers that exist at the same time, rounded up to a power
  /// of two. In practice use at most three quarters of this capacity. Each entry of the map costs
  /// 16 bytes. 0 disables `locate_by::map`.
  std::uint32_t map_capacity = 0;
  /// The number of warps of a launch that can use `malloc_reserved`. Further warps fall back to
  /// `malloc`. Each warp costs 256 bytes. 0 disables `malloc_reserved`.
  std::uint32_t warps = 0;
  /// Must be the backend of the upstream heap.
  backend backend_kind = backend::automatic;
};

/// Coalesced allocation over an upstream heap of type `Upstream`: a `heap_ref`, or
/// `platform_malloc_heap` for CUDA's malloc (on the CPU: the C library's malloc).
///
///   quarry::heap heap{{.bytes = 8_GiB}};
///   quarry::coalescing_heap together{heap.ref()};
///   kernel<<<grid, block>>>(together.ref(), ...);  // calls malloc(size), free(pointer) of the ref
///
/// A coalescing heap owns its metadata. It does not own the upstream heap, which must outlive it.
/// Not thread-safe; no kernel may use the heap during `reset` or `reset_reserved`.
template <class Upstream>
class coalescing_heap {
 public:
  /// Throws `out_of_memory`, `bad_argument`, or `resource_failed` with the name of the failed call.
  explicit coalescing_heap(Upstream upstream, coalescing_options const& options = {})
      : slots_{options.map_capacity == 0 ? 0 : bit_ceil(options.map_capacity)},
        warps_{options.warps},
        memory_{options.backend_kind, rings_offset() + sizeof(reserved_coalescing::ring) * warps_},
        upstream_{upstream} {
    reset();
  }

  [[nodiscard]] coalescing_ref<Upstream> ref() const {
    return coalescing_ref<Upstream>{static_cast<coalescing_state<Upstream>*>(memory_.data())};
  }

  /// Forgets all allocations and faults. Call it after a reset of the upstream heap.
  void reset() {
    memory_.zero(0, memory_.size());
    auto* const base = static_cast<char*>(memory_.data());
    coalescing_state<Upstream> const fresh{
        upstream_,
        {reinterpret_cast<detail::superblock_map::slot*>(base + map_offset()), slots_},
        reinterpret_cast<reserved_coalescing::ring*>(base + rings_offset()),
        warps_,
        {}};
    memory_.write(0, &fresh, sizeof(fresh));
  }

  /// Resets the state of `malloc_reserved` to its state before the first launch. Allocations stay
  /// valid. Call it between two launches if lanes of the first launch made different numbers of
  /// calls or called `leave`. Without this call such lanes fall back to `malloc` in the second
  /// launch. Before the call, each lane must have called `leave`, or made as many calls as the
  /// other lanes of its warp. Otherwise the memory that is still reserved for the lane is lost.
  void reset_reserved() {
    memory_.zero(rings_offset(), sizeof(reserved_coalescing::ring) * warps_);
  }

  /// Returns the first fault since the last reset, if there was a fault. Waits for kernels.
  [[nodiscard]] std::optional<fault> first_fault() const {
    auto const log = faults();
    if (log.ready == 0) return std::nullopt;
    return log.first;
  }
  /// Returns how many faults of this kind there were since the last reset. Waits for kernels.
  [[nodiscard]] std::uint64_t fault_count(fault_kind kind) const {
    return faults().counts[static_cast<std::uint32_t>(kind)];
  }

 private:
  static constexpr bytes state_bytes = (sizeof(coalescing_state<Upstream>) + 255) / 256 * 256;

  [[nodiscard]] static std::uint32_t bit_ceil(std::uint32_t capacity) {
    if (capacity > 1u << 31)
      throw bad_argument{"coalescing_options: map_capacity is " + std::to_string(capacity) +
                         "; the maximum is 2147483648"};
    return std::bit_ceil(capacity);
  }
  [[nodiscard]] bytes map_offset() const { return state_bytes; }
  [[nodiscard]] bytes rings_offset() const {
    return state_bytes + (sizeof(detail::superblock_map::slot) * slots_ + 255) / 256 * 256;
  }

  [[nodiscard]] fault_log faults() const {
    coalescing_state<Upstream> state;
    memory_.read(&state, 0, sizeof(state));
    return state.faults;
  }

  std::uint32_t slots_;
  std::uint32_t warps_;
  detail::kernel_memory memory_;
  Upstream upstream_;
};

}  // namespace quarry::inline QUARRY_ABI
