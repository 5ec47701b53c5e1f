// SPDX-License-Identifier: Apache-2.0
// The time, and the multiprocessor that a lane runs on.
#pragma once

#include "quarry/simt/this_lane.hpp"

#include <ctime>

namespace quarry::inline QUARRY_ABI::simt {

/// Nanoseconds of the device's clock, which may advance in steps of 1 µs. On the CPU, of
/// CLOCK_MONOTONIC.
[[nodiscard]] QUARRY_HD inline std::uint64_t clock_ns() {
#ifdef __CUDA_ARCH__
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
#else
  std::timespec time{};
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
#endif
}

/// The number of the multiprocessor that the lane runs on. On the CPU, `warp_hint`.
[[nodiscard]] QUARRY_HD inline std::uint32_t processor() {
#ifdef __CUDA_ARCH__
  std::uint32_t number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
#else
  return warp_hint();
#endif
}

}  // namespace quarry::inline QUARRY_ABI::simt
