// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace quarry::compiler {

/// --trace: puts the runtime's functions of src/mpi/trace.hpp around calls of MPI, malloc and free.
/// Adds the calls' places to `places`; calls through pointers have none. Returns the names of the
/// functions, by number; number 0 is unknown. After the analysis, whose answers do not know these
/// functions.
std::vector<std::string> trace_calls(llvm::Module& module, std::vector<std::string>& places);

}  // namespace quarry::compiler
