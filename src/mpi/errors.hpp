// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reports a failed call as the communicator's error handler says: ends the program with a message,
/// returns the code, or calls the program's function. `value` is the argument that is wrong.
QUARRY_SLOW int fail(rank_state& rank, MPI_Comm handle, int code, char const* function,
                     char const* what, std::int64_t value);

/// Whether errors in the communicator end the program.
[[nodiscard]] QUARRY_SLOW bool is_fatal(rank_state& rank, MPI_Comm handle);

/// A communicator keeps its error handler until `release_handler`.
QUARRY_SLOW void retain_handler(rank_state& rank, MPI_Errhandler handler);
QUARRY_SLOW void release_handler(rank_state& rank, MPI_Errhandler handler);

/// Ends all ranks. The program's exit status is `code`.
[[noreturn]] QUARRY_SLOW void abort_program(std::int32_t code);

/// Makes all ranks end when they wait next. Returns true for the first caller: only it may write
/// the world's `first_failure`.
[[nodiscard]] QUARRY_SLOW bool begin_abort(std::int32_t code);

/// The text of an error class.
[[nodiscard]] QUARRY_HD char const* error_text(int code);

/// The membership with this handle; null if there is none.
[[nodiscard]] QUARRY_HD inline membership* member(rank_state& rank, MPI_Comm handle) {
  auto const index = static_cast<std::uint32_t>(handle - 1);
  return index < rank.memberships && rank.member_of[index].shared != nullptr
             ? &rank.member_of[index]
             : nullptr;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
