// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Reports a failed call as the communicator's error handler says: ends the program with a message,
/// returns the code, or calls the program's function. `value` is the argument that is wrong.
QUARRY_SLOW int fail(rank_state& rank, MPI_Comm handle, int code, char const* function,
                     char const* what, std::int64_t value);

/// Ends all ranks. The program's exit status is `code`.
[[noreturn]] QUARRY_SLOW void abort_program(std::int32_t code);

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
