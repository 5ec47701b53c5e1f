// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "point_to_point.hpp"
#include "reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Waits until all members have called it.
QUARRY_SLOW void barrier(rank_state& rank, membership& among, call which);

/// Sends `data` of `root` to all members.
QUARRY_SLOW void broadcast_bytes(rank_state& rank, membership& among, void* data, bytes size,
                                 std::uint32_t root, call which);

}  // namespace quarry::inline QUARRY_ABI::mpi
