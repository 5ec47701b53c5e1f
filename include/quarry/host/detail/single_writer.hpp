// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::detail {

/// A number or pointer that one thread at a time writes while other threads read.
///
/// The writer uses the object as if it were a `T`. Memory order: the writer stores by (W), a
/// release store. Readers load by (S), an acquire load. A reader that loads a value sees everything
/// that was written before it. On x86 neither costs more than a plain access. Zeroed memory holds
/// zeros.
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
  /// A relaxed load: for the writer, and for a reader that has loaded a later write by (S).
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }
  /// An acquire load: for readers.
  [[nodiscard]] T load_acquire() const noexcept {
    return value_.load(std::memory_order_acquire);  // (S)
  }

 private:
  std::atomic<T> value_{};
};

}  // namespace quarry::inline QUARRY_ABI::detail
