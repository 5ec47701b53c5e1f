// SPDX-License-Identifier: Apache-2.0
// Device-scope atomics for both machines: libcu++'s atomic_ref, with a place to switch lanes before each access.
#pragma once

#include "quarry/simt/host_lane.hpp"

#include <cuda/atomic>

namespace quarry::simt {

using memory_order = cuda::std::memory_order;
inline constexpr memory_order relaxed = cuda::std::memory_order_relaxed;
inline constexpr memory_order acquire = cuda::std::memory_order_acquire;
inline constexpr memory_order release = cuda::std::memory_order_release;
inline constexpr memory_order acq_rel = cuda::std::memory_order_acq_rel;

/// Several releases in a row cost one fence on CUDA: `fence_before_stores`, and then stores with `fenced_release`, which is
/// relaxed there; likewise loads with `fenced_acquire`, and then `fence_after_loads`. Elsewhere the fences are nothing and each
/// access has its order, since ThreadSanitizer knows no fences.
#ifdef __CUDA_ARCH__
inline constexpr memory_order fenced_release = relaxed;
inline constexpr memory_order fenced_acquire = relaxed;
#else
inline constexpr memory_order fenced_release = release;
inline constexpr memory_order fenced_acquire = acquire;
#endif
QUARRY_HD inline void fence_before_stores() {
#ifdef __CUDA_ARCH__
  __threadfence();
#endif
}
QUARRY_HD inline void fence_after_loads() { fence_before_stores(); }

/// Reads what is written only before this lane may read it. Thousands of lanes that read one atomic queue up at one place of
/// the L2 cache; this may be served by the multiprocessor's own.
template <class T>
[[nodiscard]] QUARRY_HD T cached_read(T const& object) {
  return object;
}

/// A reference through which several lanes access `T` at once. In fibers each access is a point at which the scheduler may
/// run another lane, so that a seed decides the interleaving.
template <class T>
class atomic_ref {
 public:
  QUARRY_HD explicit atomic_ref(T& object) : ref_{object} {}

  [[nodiscard]] QUARRY_HD T load(memory_order order) const {
    interleave();
    return ref_.load(order);
  }
  QUARRY_HD void store(T value, memory_order order) const {
    interleave();
    ref_.store(value, order);
  }
  QUARRY_HD T exchange(T value, memory_order order) const {
    interleave();
    return ref_.exchange(value, order);
  }
  QUARRY_HD T fetch_add(T value, memory_order order) const {
    interleave();
    return ref_.fetch_add(value, order);
  }
  QUARRY_HD T fetch_sub(T value, memory_order order) const {
    interleave();
    return ref_.fetch_sub(value, order);
  }
  QUARRY_HD T fetch_max(T value, memory_order order) const {
    interleave();
    return ref_.fetch_max(value, order);
  }
  QUARRY_HD T fetch_or(T value, memory_order order) const {
    interleave();
    return ref_.fetch_or(value, order);
  }
  QUARRY_HD T fetch_and(T value, memory_order order) const {
    interleave();
    return ref_.fetch_and(value, order);
  }
  /// On failure `expected` holds what was found, loaded relaxed.
  QUARRY_HD bool compare_exchange(T& expected, T desired, memory_order order) const {
    interleave();
    return ref_.compare_exchange_strong(expected, desired, order, relaxed);
  }

 private:
  cuda::atomic_ref<T, cuda::thread_scope_device> ref_;
};

/// Zeroes `count` words, which begin at a multiple of 16 bytes, while others may look at them.
QUARRY_HD inline void zero_words(std::uint64_t* words, std::uint32_t count) {
#ifdef __CUDA_ARCH__
  auto* const pairs = reinterpret_cast<ulonglong2*>(words);
#pragma unroll 4
  for (std::uint32_t i = 0; i < count / 2; ++i) pairs[i] = {0, 0};
  if (count % 2 != 0) words[count - 1] = 0;
#else
  for (std::uint32_t i = 0; i < count; ++i) atomic_ref<std::uint64_t>{words[i]}.store(0, relaxed);
#endif
}

}  // namespace quarry::simt
