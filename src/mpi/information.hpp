// SPDX-License-Identifier: Apache-2.0
// MPI_Info: keys with values, in the order in which the keys were added.
#pragma once

#include "communicator_objects.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

struct information_entry {
  information_entry* next;
  char* value;  // in memory of its own
  char key[MPI_MAX_INFO_KEY + 1];
};

struct information {
  information_entry* first;
};

/// The object with this handle; null if there is none.
[[nodiscard]] QUARRY_HD information* information_of(rank_state& rank, MPI_Info handle);

/// A copy; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW information* copy_of(information const& old);
QUARRY_SLOW void free_information(information* freed);

}  // namespace quarry::inline QUARRY_ABI::mpi
