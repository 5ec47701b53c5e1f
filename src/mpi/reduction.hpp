// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// An operation that the program made.
struct user_op {
  MPI_User_function* function;
  std::uint32_t commutes;
};

inline constexpr MPI_Op first_user_op = 0x1000;

/// Whether the operation exists and accepts the type.
[[nodiscard]] QUARRY_SLOW bool is_reducible(rank_state& rank, MPI_Op op, MPI_Datatype type);

/// in_out[i] = input[i] op in_out[i], as MPI defines it: `input` is of lower ranks.
QUARRY_SLOW void reduce(rank_state& rank, void const* input, void* in_out, bytes count,
                        MPI_Datatype type, MPI_Op op);

}  // namespace quarry::inline QUARRY_ABI::mpi
