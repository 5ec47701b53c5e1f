// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <set>
#include <string>

namespace quarry::compiler {

/// Replaces what ranks or PTX cannot have by what they can:
///
///   thread-local variables       ordinary global variables, of which each rank has a copy
///   atomic operations            plain ones: no other rank has the memory
///   aliases                      the functions and variables that they name
///   undefined weak symbols       null, unless the runtime defines them
///   `goto *label`                a switch over the numbers of the labels
///   constructors, destructors    calls at the start and the end of the program's main
///
/// Must run on the whole program, after rename_main and before connect_to_runtime.
void lower_c_features(llvm::Module& module, std::set<std::string> const& runtime_functions);

}  // namespace quarry::compiler
