// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// What a module is compiled for.
enum class target { gpu, cpu };

/// Gives each rank its own copy of every mutable global variable of the program.
///
/// The variables become fields of a record, of which the launcher allocates one for each rank. A
/// constant that holds the address of such a variable becomes a field, too, because its value
/// differs between ranks. Must run on the whole program, before optimisation: an optimiser that
/// sees a plain global variable would assume one copy.
///
///   |record_header|field|field|...|      `quarry_mpi_record_bytes` is the size
///
/// Adds the function `quarry_mpi_init_record(record)`, which writes the initial values.
void privatize_globals(llvm::Module& module, target machine);

/// A value in `function` that is the address of the calling rank's record. All calls for one
/// function give the same value.
llvm::Value* record_of_rank(llvm::Function& function, target machine);

}  // namespace quarry::compiler
