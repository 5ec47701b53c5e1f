// SPDX-License-Identifier: Apache-2.0
// How ranks make a communicator together. shared_communicators.cpp defines these functions for
// ranks that share memory: one member makes an object that all members use.
// separate_communicators.cpp defines them for ranks of several processes, which share no object:
// each member makes one of its own. All members call them.
#pragma once

#include "communicator_objects.hpp"
#include "groups.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// `split` (splitting.hpp) after the check of its arguments.
QUARRY_SLOW int split_members(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                              call which, char const* function);

/// A communicator of the same ranks with new contexts. Null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW communicator* copy_of_members(rank_state& rank, membership& at);

/// A communicator of the members of a group, of which the caller is number `own`. Null if the heap
/// has no memory. `tag` distinguishes calls of ranks that have several groups.
[[nodiscard]] QUARRY_SLOW communicator* communicator_of(rank_state& rank, group& members,
                                                        std::uint32_t own, int tag);

}  // namespace quarry::inline QUARRY_ABI::mpi
