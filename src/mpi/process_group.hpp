// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi_processes {

/// Starts a program as so many processes of this host, which find each other by a file. Waits for
/// all of them. When one fails, the others have a few seconds to end. Returns the status of the
/// first that has failed, else 0.
int run(unsigned count, std::vector<std::string> const& command);

}  // namespace quarry::inline QUARRY_ABI::mpi_processes
