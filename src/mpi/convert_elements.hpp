// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies elements between buffers of one rank that may have different types: as many bytes as the
/// source has.
QUARRY_SLOW void convert_elements(rank_state& rank, void const* source, bytes count,
                                  MPI_Datatype type, void* target, MPI_Datatype to_type);

}  // namespace quarry::inline QUARRY_ABI::mpi
