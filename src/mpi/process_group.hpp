// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi_processes {

/// The file that a process makes if it could not begin, so that others do not wait for it.
inline std::string failed_file(std::string const& meeting_file) { return meeting_file + ".failed"; }

/// Starts a program as so many processes of this host, which find each other by a file. Waits for
/// all of them. When one crashes or cannot begin, the others get SIGTERM. Returns the first status
/// of a process that is not 0, else 0.
int run(unsigned count, std::vector<std::string> const& command);

}  // namespace quarry::inline QUARRY_ABI::mpi_processes
