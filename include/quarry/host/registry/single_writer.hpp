// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI {

/// A number that one thread at a time writes while others may look.
///
/// Its writer uses it as if it were a `T`. Memory order: (W) a release store, and (S) an acquire
/// load by who looks: who sees a value sees all that was written before it. On x86 neither costs
/// more than a plain access. Zeroed memory holds zeros.
template <class T>
class single_writer {
 public:
  constexpr single_writer() = default;
  constexpr explicit single_writer(T value) : value_{value} {}
  single_writer(single_writer const&) = delete;
  single_writer& operator=(single_writer const& other) noexcept {
    return *this = static_cast<T>(other);
  }

  single_writer& operator=(T value) noexcept {
    value_.store(value, std::memory_order_release);  // (W)
    return *this;
  }
  /// Relaxed: for its writer, and for who has looked by (S) at what was written after it.
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }
  /// For others.
  [[nodiscard]] T load_acquire() const noexcept {
    return value_.load(std::memory_order_acquire);  // (S)
  }

 private:
  std::atomic<T> value_{};
};

}  // namespace quarry::inline QUARRY_ABI
