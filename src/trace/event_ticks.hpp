// SPDX-License-Identifier: Apache-2.0
// The clocks that a recorder reads for each event.
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace quarry::inline QUARRY_ABI::trace {

/// Whether the processor has a time stamp counter of constant rate. Its kernel keeps the counters
/// of all cores equal, or else does not offer the counter to programs as constant.
[[nodiscard]] inline bool has_constant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

[[nodiscard]] inline std::uint64_t steady_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

/// Reads one of the clocks.
class tick_source {
 public:
  explicit tick_source(bool uses_counter) : uses_counter_{uses_counter} {}

  /// The time, for an event that only this thread's events are ordered with. The processor may
  /// read its counter before earlier instructions are complete.
  [[nodiscard]] std::uint64_t unordered() const {
#if defined(__x86_64__)
    if (uses_counter_) return __rdtsc();
#endif
    return steady_ns();
  }
  /// The time, not before what happened before the call. Without the fence, a thread that takes a
  /// lock could read the counter while it still waits for the lock's cache line.
  [[nodiscard]] std::uint64_t ordered() const {
#if defined(__x86_64__)
    if (uses_counter_) {
      _mm_lfence();
      return __rdtsc();
    }
#endif
    return steady_ns();
  }
  /// The time, before the loads that follow the call.
  [[nodiscard]] std::uint64_t before_loads() const {
    std::uint64_t const result = ordered();
#if defined(__x86_64__)
    _mm_lfence();
    std::atomic_signal_fence(std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    return result;
  }

  [[nodiscard]] bool uses_counter() const { return uses_counter_; }

 private:
  bool uses_counter_;
};

/// Converts ticks to nanoseconds by two readings of both clocks: events between them are
/// interpolated. So the counter's rate need not be known, and errors do not add up. A reading is
/// wrong by 4096 ticks at most, unless the thread is interrupted three times in a row. Ticks of the
/// steady clock are converted exactly.
class tick_scale {
 public:
  explicit tick_scale(tick_source source)
      : source_{source},
        origin_{steady_ns()},
        tick_{source_.uses_counter() ? source_.before_loads() : origin_} {}

  /// Reads both clocks. Returns the ticks: later loads see all that happened before this time.
  [[nodiscard]] std::uint64_t advance() {
    std::uint64_t ticks = 0, ns = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {  // again if something interrupted the thread
      ticks = source_.before_loads();
      ns = source_.uses_counter() ? steady_ns() : ticks;  // one reading of one clock
      if (source_.unordered() - ticks < 4096) break;
    }
    ns = ns - origin_;
    start_tick_ = tick_;
    start_ns_ = ns_;
    rate_ = ticks > tick_ && ns > ns_
                ? static_cast<double>(ns - ns_) / static_cast<double>(ticks - tick_)
                : 0;
    tick_ = ticks;
    ns_ = ns;
    return ticks;
  }
  /// Nanoseconds since this object was made. Never less than the result before.
  [[nodiscard]] std::uint64_t ns_of(std::uint64_t ticks) {
    if (ticks > start_tick_) {
      auto const since = static_cast<double>(static_cast<std::int64_t>(ticks - start_tick_));
      std::uint64_t const ns =
          start_ns_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(since * rate_));
      if (ns > latest_) latest_ = ns;
    }
    return latest_;
  }
  /// The same for a time of std::chrono::steady_clock: at most that of the last reading.
  [[nodiscard]] std::uint64_t ns_of_steady(std::uint64_t steady) const {
    return steady > origin_ ? std::min(steady - origin_, ns_) : 0;
  }
  /// Makes all later results of `ns_of` not less than the time of the last reading.
  void advance_results() { latest_ = std::max(latest_, ns_); }

 private:
  tick_source source_;
  std::uint64_t origin_;
  std::uint64_t tick_, ns_ = 0;                  // the last reading
  std::uint64_t start_tick_ = 0, start_ns_ = 0;  // the reading before
  double rate_ = 0;                              // nanoseconds a tick between them
  std::uint64_t latest_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
