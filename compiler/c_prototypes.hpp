// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Gives functions of the C library their types where the program calls them without a declaration,
/// as C before 1999 allowed: the GPU's linker refuses other types. Must run before
/// connect_to_runtime.
void correct_prototypes(llvm::Module& module);

}  // namespace quarry::compiler
