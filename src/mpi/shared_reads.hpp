// SPDX-License-Identifier: Apache-2.0
// How ranks read what others have published: each rank alone, together with the other ranks of its
// warp, or by its helpers.
#pragma once

#include "collective.hpp"
#include "exchange_job.hpp"
#include "parts_job.hpp"
#include "reduction_job.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// All members of a communicator call each of these functions between two meetings of a collective
/// operation. In a warp that has 32 ranks, members that come together work for each other. So a
/// lane that has nothing to do calls them, too.

/// Copies `size` bytes at `from`, the same for all ranks, to `to`, unless it is null.
QUARRY_SLOW void read_common(collective const& of, char* to, char const* from, bytes size);

/// Copies a part of each rank's data. Returns false if that is not possible or not of use: then the
/// caller copies, part by part.
[[nodiscard]] QUARRY_SLOW bool read_parts(collective const& of, exchange_job const& job);

/// Copies the parts of all members, of different sizes. Returns bits of `parts_outcome`.
[[nodiscard]] QUARRY_SLOW std::uint32_t read_parts(parts_job const& job);

/// Reduces this rank's share of a group of ranks: it is worker `worker` of `workers`.
QUARRY_SLOW void reduce_share(reduction_job const& job, std::uint32_t worker,
                              std::uint32_t workers);

}  // namespace quarry::inline QUARRY_ABI::mpi
