// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/coalescing/coalescing_ref.hpp"
#include "quarry/device/kernel_memory.hpp"

#include <bit>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI {

struct coalescing_options {
  /// Parts without headers that can be allocated at the same time, some three quarters of it in
  /// practice; rounded up to a power of two. 16 bytes each. 0: `locate_by::map` is not used.
  std::uint32_t map_capacity = 0;
  /// Warps of a launch that can use `malloc_reserved`; those beyond fall back. 256 bytes each. 0:
  /// it is not used.
  std::uint32_t warps = 0;
  /// Must be the upstream heap's: where its kernels run.
  backend where = backend::automatic;
};

/// Coalesced allocation over `Upstream`: a `heap_ref`, or `platform_malloc_heap` for CUDA's malloc
/// (the C library's on the CPU).
///
///   quarry::heap heap{{.bytes = 8_GiB}};
///   quarry::coalescing_heap together{heap.ref()};
///   kernel<<<grid, block>>>(together.ref(), ...);  // calls malloc(size), free(pointer) of the ref
///
/// Owns its bookkeeping, not the upstream heap, which must outlive it.
template <class Upstream>
class coalescing_heap {
 public:
  /// Throws `out_of_memory`, `bad_argument`, or `resource_failed` that names the call.
  explicit coalescing_heap(Upstream upstream, coalescing_options const& options = {})
      : slots_{options.map_capacity == 0 ? 0 : bit_ceil(options.map_capacity)},
        warps_{options.warps},
        memory_{options.where, rings_at() + sizeof(reserved_coalescing::ring) * warps_},
        upstream_{upstream} {
    reset();
  }

  [[nodiscard]] coalescing_ref<Upstream> ref() const {
    return coalescing_ref<Upstream>{static_cast<coalescing_state<Upstream>*>(memory_.data())};
  }

  /// Forgets all allocations and faults, for when the upstream heap was reset.
  void reset() {
    memory_.zero(0, memory_.size());
    auto* const begin = static_cast<char*>(memory_.data());
    coalescing_state<Upstream> const fresh{
        upstream_,
        {reinterpret_cast<superblock_map::slot*>(begin + map_at()), slots_},
        reinterpret_cast<reserved_coalescing::ring*>(begin + rings_at()),
        warps_,
        {}};
    memory_.write(0, &fresh, sizeof(fresh));
  }

  /// Lets all lanes begin anew with `malloc_reserved`, as before the first launch. What they hold
  /// stays as it is. Call it between launches whose lanes made different numbers of calls, or
  /// called `leave`: those lanes would be served by the dynamic way. Requires that no kernel runs,
  /// and that each lane of the last launch called `leave`, or made as many calls as the others of
  /// its warp: otherwise what is still reserved for it is lost.
  void reset_reserved() { memory_.zero(rings_at(), sizeof(reserved_coalescing::ring) * warps_); }

  /// The first fault since the last reset, if there was one. Waits for kernels.
  [[nodiscard]] std::optional<fault> first_fault() const {
    auto const log = faults();
    if (log.ready == 0) return std::nullopt;
    return log.first;
  }
  [[nodiscard]] std::uint64_t fault_count(fault_kind kind) const {
    return faults().counts[static_cast<std::uint32_t>(kind)];
  }

 private:
  static constexpr bytes state_bytes = (sizeof(coalescing_state<Upstream>) + 255) / 256 * 256;

  [[nodiscard]] static std::uint32_t bit_ceil(std::uint32_t capacity) {
    if (capacity > 1u << 31)
      throw bad_argument{"coalescing_options: map_capacity is " + std::to_string(capacity) +
                         "; at most 2147483648 is possible"};
    return std::bit_ceil(capacity);
  }
  [[nodiscard]] bytes map_at() const { return state_bytes; }
  [[nodiscard]] bytes rings_at() const {
    return state_bytes + (sizeof(superblock_map::slot) * slots_ + 255) / 256 * 256;
  }

  [[nodiscard]] fault_log faults() const {
    coalescing_state<Upstream> state;
    memory_.read(&state, 0, sizeof(state));
    return state.faults;
  }

  std::uint32_t slots_;
  std::uint32_t warps_;
  kernel_memory memory_;
  Upstream upstream_;
};

}  // namespace quarry::inline QUARRY_ABI
