// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// For each declared function that has pointers and for which `is_wanted` holds: adds a function to
/// the program that calls it, and lets the pointers point to the new function. Functions with
/// variable arguments stay as they are.
void call_through_functions(llvm::Module& module,
                            llvm::function_ref<bool(llvm::Function const&)> is_wanted);

}  // namespace quarry::compiler
