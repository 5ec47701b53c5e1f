// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "privatize.hpp"
#include "unsupported.hpp"

#include <set>
#include <string>
#include <vector>

namespace quarry::compiler {

/// Connects the program's calls with the runtime. `runtime_functions` are the names that the
/// runtime defines: `MPI_Send` and the like, and `quarry_c_<name>` for functions of the C library.
/// Adds what is missing.
void connect_to_runtime(llvm::Module& module, target machine,
                        std::set<std::string> const& runtime_functions, unsupported_list& missing);

/// Renames the program's `main` to `quarry_mpi_main`, with the parameters argc, argv and envp.
/// Returns false if there is no `main`.
bool rename_main(llvm::Module& module);

/// Before each call of an MPI function, also through a pointer, stores the number of the place in
/// the rank's record. Returns the places by number, as file:line; number 0 is unknown.
std::vector<std::string> record_call_places(llvm::Module& module, target machine);

/// Lets functions be left by a rank's end: `exit` and failed assertions leave them without return.
void allow_early_end(llvm::Module& module);

/// --check: calls of MPI go to functions of the runtime that check them (src/mpi/checks.hpp), where
/// there is one, also through pointers. A call before each call checks that MPI runs. Comes after
/// the analysis, which knows MPI's names.
void check_calls(llvm::Module& module, std::set<std::string> const& runtime_functions);

}  // namespace quarry::compiler
