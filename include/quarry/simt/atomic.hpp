// SPDX-License-Identifier: Apache-2.0
// Device-scope atomics for CUDA and the CPU. On the CPU they are the compiler's atomic operations;
// before each access the scheduler of fibers may switch lanes.
#pragma once

#include "quarry/simt/global_atomic.hpp"
#include "quarry/simt/host_lane.hpp"

#include <cstring>
#include <type_traits>

namespace quarry::inline QUARRY_ABI::simt {

inline constexpr memory_order relaxed = memory_order::relaxed;
inline constexpr memory_order acquire = memory_order::acquire;
inline constexpr memory_order release = memory_order::release;
inline constexpr memory_order acq_rel = memory_order::acq_rel;

/// On CUDA one fence serves several releases: call `fence_before_stores`, then store with
/// `fenced_release`, which is relaxed on CUDA. Likewise load with `fenced_acquire`, then call
/// `fence_after_loads`. On the CPU the fences do nothing and each access has its own order, because
/// ThreadSanitizer does not support fences.
#ifdef __CUDA_ARCH__
inline constexpr memory_order fenced_release = relaxed;
inline constexpr memory_order fenced_acquire = relaxed;
inline constexpr memory_order fenced_acq_rel = relaxed;
#else
inline constexpr memory_order fenced_release = release;
inline constexpr memory_order fenced_acquire = acquire;
inline constexpr memory_order fenced_acq_rel = acq_rel;
#endif
QUARRY_HD inline void fence_before_stores() {
#ifdef __CUDA_ARCH__
  __threadfence();
#endif
}
QUARRY_HD inline void fence_after_loads() { fence_before_stores(); }

/// A reference through which several lanes access an object at once. `T` has 4 or 8 bytes. In
/// fibers each access is a point at which the scheduler may run another lane, so that a seed
/// decides the interleaving. On CUDA the object must lie in global memory.
template <class T>
class atomic_ref {
 public:
  QUARRY_HD explicit atomic_ref(T& object) : object_{&object} {}

  [[nodiscard]] QUARRY_HD T load(memory_order order) const {
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::load(bits(), order));
#else
    interleave();
    T value;
    __atomic_load(object_, &value, on_host(order));
    return value;
#endif
  }
  QUARRY_HD void store(T value, memory_order order) const {
#ifdef __CUDA_ARCH__
    on_gpu::store(bits(), to_bits(value), order);
#else
    interleave();
    __atomic_store(object_, &value, on_host(order));
#endif
  }
  QUARRY_HD T exchange(T value, memory_order order) const {
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::exchange(bits(), to_bits(value), order));
#else
    interleave();
    T previous;
    __atomic_exchange(object_, &value, &previous, on_host(order));
    return previous;
#endif
  }
  QUARRY_HD T fetch_add(T value, memory_order order) const {
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::add(bits(), to_bits(value), order));
#else
    interleave();
    return __atomic_fetch_add(object_, value, on_host(order));
#endif
  }
  /// Adds, relaxed, for a caller that does not need the previous value. On CUDA the lane does not
  /// wait for the result, so many additions are in flight at once.
  QUARRY_HD void add_blindly(T value) const {
#ifdef __CUDA_ARCH__
    on_gpu::add_blindly(bits(), to_bits(value));
#else
    (void)fetch_add(value, relaxed);
#endif
  }
  /// Reads the value such that at least one of two lanes sees the other lane's change. Each lane
  /// changes its own word and then calls `look` on the other lane's word. On the CPU `look` is an
  /// RMW that does not change the value; the later RMW synchronizes with the earlier RMW. On CUDA
  /// `look` is a load. By then the lane has the result of the RMW that changed its own word, so all
  /// lanes see that change.
  [[nodiscard]] QUARRY_HD T look(memory_order order_on_cpu) const {
#ifdef __CUDA_ARCH__
    return load(relaxed);
#else
    return fetch_add(T{}, order_on_cpu);
#endif
  }
  QUARRY_HD T fetch_sub(T value, memory_order order) const {
    return fetch_add(static_cast<T>(T{} - value), order);
  }
  QUARRY_HD T fetch_max(T value, memory_order order) const {
    static_assert(std::is_unsigned_v<T>);
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::max(bits(), to_bits(value), order));
#else
    interleave();
    T found = __atomic_load_n(object_, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(object_, &found, found < value ? value : found, true,
                                        on_host(order), __ATOMIC_RELAXED)) {
    }
    return found;
#endif
  }
  QUARRY_HD T fetch_or(T value, memory_order order) const {
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::bitwise_or(bits(), to_bits(value), order));
#else
    interleave();
    return __atomic_fetch_or(object_, value, on_host(order));
#endif
  }
  QUARRY_HD T fetch_and(T value, memory_order order) const {
#ifdef __CUDA_ARCH__
    return from_bits(on_gpu::bitwise_and(bits(), to_bits(value), order));
#else
    interleave();
    return __atomic_fetch_and(object_, value, on_host(order));
#endif
  }
  /// On failure `expected` holds the current value, loaded relaxed.
  QUARRY_HD bool compare_exchange(T& expected, T desired, memory_order order) const {
#ifdef __CUDA_ARCH__
    auto const wanted = to_bits(expected);
    auto const found = on_gpu::compare_exchange(bits(), wanted, to_bits(desired), order);
    if (found == wanted) return true;
    expected = from_bits(found);
    return false;
#else
    interleave();
    return __atomic_compare_exchange(object_, &expected, &desired, false, on_host(order),
                                     __ATOMIC_RELAXED);
#endif
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));

#ifdef __CUDA_ARCH__
  using carrier = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using on_gpu = global_atomic<carrier>;

  [[nodiscard]] __device__ carrier* bits() const { return reinterpret_cast<carrier*>(object_); }
  [[nodiscard]] __device__ static carrier to_bits(T value) {
    carrier result;
    std::memcpy(&result, &value, sizeof(T));
    return result;
  }
  [[nodiscard]] __device__ static T from_bits(carrier value) {
    T result;
    std::memcpy(&result, &value, sizeof(T));
    return result;
  }
#else
  [[nodiscard]] static constexpr int on_host(memory_order order) { return static_cast<int>(order); }
#endif

  T* object_;
};

/// An atomic reference to two bytes. Every load acquires, and every change also releases.
class short_ref {
 public:
  QUARRY_HD explicit short_ref(std::uint16_t& object) : object_{&object} {}

  [[nodiscard]] QUARRY_HD std::uint16_t load() const {
#ifdef __CUDA_ARCH__
    return global_atomic<std::uint32_t>::load_short(object_);
#else
    interleave();
    return __atomic_load_n(object_, __ATOMIC_ACQUIRE);
#endif
  }
  /// On failure `expected` holds the current value.
  QUARRY_HD bool compare_exchange(std::uint16_t& expected, std::uint16_t desired) const {
#ifdef __CUDA_ARCH__
    auto const found =
        global_atomic<std::uint32_t>::compare_exchange_short(object_, expected, desired);
    if (found == expected) return true;
    expected = found;
    return false;
#else
    interleave();
    return __atomic_compare_exchange_n(object_, &expected, desired, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
#endif
  }

 private:
  std::uint16_t* object_;
};

/// Reads a value that no other lane changes at this moment. The nearest cache may serve the read.
/// The caller must have acquired the last change.
template <class T>
[[nodiscard]] QUARRY_HD T load_owned(T& object) {
#ifdef __CUDA_ARCH__
  return object;
#else
  return atomic_ref<T>{object}.load(relaxed);
#endif
}

/// Does the same for 8 words, `Stride` bytes apart. All loads are in flight before the first load
/// completes.
template <std::size_t Stride>
QUARRY_HD void load_owned(std::uint64_t& first, std::uint64_t (&words)[8]) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "ld.global.u64 %0, [%8];\n\tld.global.u64 %1, [%8+%9];\n\t"
      "ld.global.u64 %2, [%8+%10];\n\tld.global.u64 %3, [%8+%11];\n\t"
      "ld.global.u64 %4, [%8+%12];\n\tld.global.u64 %5, [%8+%13];\n\t"
      "ld.global.u64 %6, [%8+%14];\n\tld.global.u64 %7, [%8+%15];"
      : "=l"(words[0]), "=l"(words[1]), "=l"(words[2]), "=l"(words[3]), "=l"(words[4]),
        "=l"(words[5]), "=l"(words[6]), "=l"(words[7])
      : "l"(__cvta_generic_to_global(&first)), "n"(Stride), "n"(2 * Stride), "n"(3 * Stride),
        "n"(4 * Stride), "n"(5 * Stride), "n"(6 * Stride), "n"(7 * Stride)
      : "memory");
#else
  for (std::size_t i = 0; i < 8; ++i) words[i] = load_owned(*(&first + i * Stride / sizeof(first)));
#endif
}

/// Two adjacent words, the first at a multiple of 16 bytes.
struct word_pair {
  std::uint64_t first;
  std::uint64_t second;
};

/// Writes both words. On CUDA both words change at once; on the CPU the second word changes first.
/// Before the call the first word must hold a value that belongs to no pair, so that readers never
/// see a pair that was not written.
QUARRY_HD inline void store_pair(std::uint64_t& first, word_pair pair) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(&first)), "l"(pair.first), "l"(pair.second));
#else
  atomic_ref<std::uint64_t>{*(&first + 1)}.store(pair.second, release);
  atomic_ref<std::uint64_t>{first}.store(pair.first, release);
#endif
}

/// Reads both words, each relaxed. On CUDA it is one load. The two words may come from different
/// stores, so the caller must check both.
[[nodiscard]] QUARRY_HD inline word_pair load_pair(std::uint64_t& first) {
#ifdef __CUDA_ARCH__
  word_pair pair;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(__cvta_generic_to_global(&first)));
  return pair;
#else
  return {atomic_ref<std::uint64_t>{first}.load(relaxed),
          atomic_ref<std::uint64_t>{*(&first + 1)}.load(relaxed)};
#endif
}

/// Reads a pair that `store_pair` wrote. On CUDA it is one plain load of 16 bytes, which the
/// hardware does not split. The load is plain because thousands of atomic loads of one word queue
/// up at one slice of the L2 cache. The multiprocessor's own cache can serve a plain load. But
/// stores of other multiprocessors do not update that cache. So the caller must detect an outdated
/// pair.
[[nodiscard]] QUARRY_HD inline word_pair cached_load(std::uint64_t& first) {
#ifdef __CUDA_ARCH__
  auto const pair = *reinterpret_cast<ulonglong2 const*>(&first);
  return {pair.x, pair.y};
#else
  atomic_ref<std::uint64_t> const front{first};
  atomic_ref<std::uint64_t> const back{*(&first + 1)};
  word_pair pair{front.load(acquire), back.load(acquire)};
  for (;;) {
    std::uint64_t const current = front.load(acquire);
    if (current == pair.first) return pair;
    pair = {current, back.load(acquire)};
  }
#endif
}

/// Reads a pair that `store_pair` wrote, and bypasses the multiprocessor's cache.
[[nodiscard]] QUARRY_HD inline word_pair load_past_cache(std::uint64_t& first) {
#ifdef __CUDA_ARCH__
  return load_pair(first);
#else
  return cached_load(first);
#endif
}

}  // namespace quarry::inline QUARRY_ABI::simt
