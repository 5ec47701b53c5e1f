// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Replaces each use of a variable of the C library, such as stdout or optarg, by the address that
/// the runtime's function `quarry_c_address_of_<name>` returns: each rank has its own variable.
/// Must run before connect_to_runtime.
void replace_c_variables(llvm::Module& module);

}  // namespace quarry::compiler
