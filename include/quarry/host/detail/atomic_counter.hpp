// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <atomic>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define QUARRY_HAS_ONE_THREAD (__libc_single_threaded != 0)
#else
#define QUARRY_HAS_ONE_THREAD false
#endif

namespace quarry::inline QUARRY_ABI::detail {

/// A number that several threads change. It can be moved while no other thread uses it.
///
/// While the process has one thread, a change is a load and a store. It costs about 5 ns less than
/// a locked instruction. The C library knows whether there is one thread; libstdc++'s shared_ptr
/// asks it, too. The creation of a second thread orders all earlier changes before that thread.
///
/// Memory order: all changes are sequentially consistent, which costs no more than weaker orders on
/// x86. All are read-modify-writes, so a change synchronises with all earlier changes. With one
/// thread nothing needs an order (O).
template <class T>
class atomic_counter {
 public:
  atomic_counter() = default;
  atomic_counter(atomic_counter const& other) noexcept : value_{other.value_.load()} {}
  atomic_counter& operator=(atomic_counter const& other) noexcept {
    value_.store(other.value_.load());
    return *this;
  }

  [[nodiscard]] T load() const noexcept { return value_.load(); }
  /// Adds `amount` and returns the sum. Unsigned numbers wrap around.
  T add(T amount) noexcept {
    if (!QUARRY_HAS_ONE_THREAD) return value_.fetch_add(amount) + amount;
    T const sum = value_.load(std::memory_order_relaxed) + amount;  // (O)
    value_.store(sum, std::memory_order_relaxed);                   // (O)
    return sum;
  }
  /// Adds `amount` if the sum does not exceed `maximum`. Returns whether it did, and the number
  /// before in `found`. Requires that the number is not above `maximum`.
  [[nodiscard]] bool add_within(T amount, T maximum, T& found) noexcept {
    found = value_.load(std::memory_order_relaxed);  // (O); else the first guess of the exchange
    if (QUARRY_HAS_ONE_THREAD) {
      if (amount > maximum - found) return false;
      value_.store(found + amount, std::memory_order_relaxed);  // (O)
      return true;
    }
    do {
      if (amount > maximum - found) return false;
    } while (!value_.compare_exchange_weak(found, found + amount));
    return true;
  }
  /// Makes the number at least `minimum`.
  void raise(T minimum) noexcept {
    for (T known = value_.load(); known < minimum;) {
      if (value_.compare_exchange_weak(known, minimum)) return;
    }
  }
  /// Sets the number and returns the number before.
  T exchange(T value) noexcept { return value_.exchange(value); }

 private:
  std::atomic<T> value_{0};
};

}  // namespace quarry::inline QUARRY_ABI::detail

#undef QUARRY_HAS_ONE_THREAD
