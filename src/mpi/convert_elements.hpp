// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A buffer of elements. Their type is one of `owner`'s.
struct typed_elements {
  rank_state& owner;
  void* data;
  MPI_Datatype type;
};

/// Copies the first `size` bytes of elements between buffers of ranks. The owner of another rank's
/// type keeps it meanwhile.
QUARRY_SLOW void convert_elements(rank_state& caller, typed_elements const& source,
                                  typed_elements const& target, bytes size);

/// The same between buffers of one rank: as many bytes as the source has.
QUARRY_SLOW void convert_elements(rank_state& rank, void const* source, bytes count,
                                  MPI_Datatype type, void* target, MPI_Datatype to_type);

}  // namespace quarry::inline QUARRY_ABI::mpi
