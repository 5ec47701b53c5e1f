// SPDX-License-Identifier: Apache-2.0
// New communicators in programs of several processes, whose members share no table. Each member has
// a communicator object of its own.
#pragma once

#include "split_order.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef QUARRY_MPI_PROCESSES
/// The first of two new contexts, which the first member draws; 0 if all are in use. All members
/// call it.
[[nodiscard]] QUARRY_SLOW std::uint32_t context_of_first(rank_state& rank, membership& among,
                                                         call which);

/// MPI_Comm_split. `own.rank` is the caller's number in the world. The first member collects all
/// wishes and sends them to all members, so that each of n members needs 12 n bytes for the time of
/// the call. Members of different colors share a context: no rank has two of the parts.
QUARRY_SLOW int split_by_messages(rank_state& rank, MPI_Comm handle, wish const& own,
                                  MPI_Comm* part, call which, char const* function);
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi
