// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/clock_alignment.hpp"

#include <chrono>

namespace quarry::inline QUARRY_ABI::detail {

std::uint64_t steady_clock_ns() {
  auto const time = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace quarry::inline QUARRY_ABI::detail
