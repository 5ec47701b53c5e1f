// SPDX-License-Identifier: Apache-2.0
// The buffers that the caller of a collective operation lends it, for checks.
#pragma once

#include "checks.hpp"
#include "scheduled_collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reports buffers of the call that unfinished operations use.
QUARRY_SLOW void check_lent(MPI_Comm communicator, collective_call const& call);

/// Reports a byte that the call both sends and receives into, or receives into twice. Parts of a
/// buffer that lie apart take memory as for `note_lent`.
QUARRY_SLOW void check_lent_apart(MPI_Comm communicator, collective_call const& call);

/// The operation of the program's request uses the buffers of the call.
QUARRY_SLOW void note_lent(MPI_Comm communicator, collective_call const& call, MPI_Request handle);

}  // namespace quarry::inline QUARRY_ABI::mpi
