// SPDX-License-Identifier: Apache-2.0
// By how much the clocks of a launch's GPUs differ, for its trace.
#pragma once

#include "quarry/core/config.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// One request for a GPU's time, in nanoseconds. The GPU read its clock between two readings of the
/// host's clock.
struct clock_exchange {
  std::uint64_t before;
  std::uint64_t device;
  std::uint64_t after;
};

/// What to add to times of a GPU, so that they are times of the host. In nanoseconds.
struct clock_offset {
  std::int64_t offset = 0;
  std::uint64_t error = 0;  // the offset is wrong by at most this, apart from the clock's steps
};

/// What to add to times of each GPU, so that they are times of the first GPU. In nanoseconds.
struct gpu_clocks {
  std::vector<std::int64_t> offsets;  // empty: not known
  std::uint64_t error = 0;            // of the difference of any two, apart from the clock's steps
};

/// The offset of a GPU's clock to the host's. The exchange that took least time counts. The GPU has
/// read its clock anywhere within it, so the offset is that to its middle. `exchanges` is not
/// empty. O(n). Differences wrap, and are right if the clocks differ by less than 2^63 ns, which
/// are 292 years.
[[nodiscard]] inline clock_offset offset_to_host(std::vector<clock_exchange> const& exchanges) {
  clock_exchange const* best = &exchanges.front();
  for (clock_exchange const& each : exchanges)
    if (each.after - each.before < best->after - best->before) best = &each;
  std::uint64_t const length = best->after - best->before;
  return {static_cast<std::int64_t>(best->before + length / 2 - best->device), (length + 1) / 2};
}

/// The clocks of GPUs, from their offsets to the host. O(n).
[[nodiscard]] inline gpu_clocks clocks_of(std::vector<clock_offset> const& to_host) {
  gpu_clocks result;
  std::uint64_t largest = 0, second = 0;
  for (clock_offset const& each : to_host) {
    result.offsets.push_back(each.offset - to_host.front().offset);
    second = std::max(second, std::min(largest, each.error));
    largest = std::max(largest, each.error);
  }
  result.error = largest + second;
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
