// SPDX-License-Identifier: Apache-2.0
// MPI's interface for profiling: each function MPI_X has a second name, PMPI_X.
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Calls of PMPI_X become calls of the runtime's MPI_X. If the program defines MPI_X itself, calls
/// of that name are calls of the program's function, which gets another name here. So whatever
/// comes later finds only the runtime's functions by MPI's names.
void bind_profiling_names(llvm::Module& module);

}  // namespace quarry::compiler
