// SPDX-License-Identifier: Apache-2.0
// Threads of the system that run the ranks of a world together.
#pragma once

#include "quarry/simt/launch.hpp"

#include <cstdint>
#include <functional>

namespace quarry::inline QUARRY_ABI::mpi {

/// The ranks that one of several threads runs: a range of about the same size for each thread. It
/// begins with a warp if there are enough ranks, so that ranks of a warp allocate together.
[[nodiscard]] simt::lane_part part_of(std::uint32_t ranks, std::uint32_t threads,
                                      std::uint32_t number);

/// Calls `run(part)` on each of `threads` threads, one of which is the caller's, and waits for
/// their ends. `end_ranks` must make all ranks end soon; it is called if a thread cannot start or
/// throws. Throws what the first of them threw.
void run_on_threads(std::uint32_t ranks, std::uint32_t threads,
                    std::function<void(simt::lane_part)> const& run,
                    std::function<void()> const& end_ranks);

}  // namespace quarry::inline QUARRY_ABI::mpi
