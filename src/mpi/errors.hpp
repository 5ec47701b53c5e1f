// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reports a failed call as the communicator's error handler says: ends the program with a message,
/// returns the code, or calls the program's function. `value` is the argument that is wrong.
QUARRY_SLOW int fail(rank_state& rank, MPI_Comm handle, int code, char const* function,
                     char const* what, std::int64_t value);

/// The communicator's error handler; that of MPI_COMM_WORLD if there is no such communicator.
[[nodiscard]] QUARRY_HD MPI_Errhandler handler_for(rank_state& rank, MPI_Comm handle);

/// The same for an error handler. `handle` is MPI_COMM_NULL if its communicator is freed.
QUARRY_SLOW int fail_with(rank_state& rank, MPI_Errhandler handler, MPI_Comm handle, int code,
                          char const* function, char const* what, std::int64_t value);

/// What an error handler does. Where several errors have different handlers, the largest wins.
enum class severity : std::uint32_t { returns, calls, ends };
[[nodiscard]] QUARRY_SLOW severity severity_of(rank_state& rank, MPI_Errhandler handler);

/// A communicator keeps its error handler until `release_handler`. So does a receive whose
/// communicator is freed.
QUARRY_SLOW void retain_handler(rank_state& rank, MPI_Errhandler handler);
QUARRY_SLOW void release_handler(rank_state& rank, MPI_Errhandler handler);

/// Ends all ranks. The program's exit status is `code`.
[[noreturn]] QUARRY_SLOW void abort_program(std::int32_t code);

/// Makes all ranks end when they wait next. Returns true for the first caller: only it may write
/// the world's `first_failure`.
[[nodiscard]] QUARRY_SLOW bool begin_abort(std::int32_t code);

/// The text of an error code, also of one that the program has added.
[[nodiscard]] QUARRY_SLOW char const* error_text(rank_state& rank, int code);

/// The membership with this handle; null if there is none.
[[nodiscard]] QUARRY_HD inline membership* member(rank_state& rank, MPI_Comm handle) {
  auto const index = static_cast<std::uint32_t>(handle - 1);
  return index < rank.memberships && rank.member_of[index].shared != nullptr
             ? &rank.member_of[index]
             : nullptr;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
