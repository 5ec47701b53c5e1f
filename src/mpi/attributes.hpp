// SPDX-License-Identifier: Apache-2.0
// Values that programs attach to communicators and datatypes.
#pragma once

#include "handles.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A value that the program has attached to an object.
struct attribute {
  enum class owner : std::uint32_t { communicator, type };

  attribute* next;  // older
  owner kind;
  int object;  // the handle of a communicator or type
  int key;
  void* value;
};

/// Calls the copy functions of the object's attributes, the oldest first, and attaches the values
/// that they give to `to`. Returns the error of a function that fails, or MPI_ERR_NO_MEM.
QUARRY_SLOW int copy_attributes(rank_state& rank, attribute::owner kind, int from, int to);

/// Calls the delete functions of the object's attributes, the youngest first, and removes them.
/// Returns the error of a function that fails; its attribute and older ones stay.
QUARRY_SLOW int delete_attributes(rank_state& rank, attribute::owner kind, int object);

}  // namespace quarry::inline QUARRY_ABI::mpi
