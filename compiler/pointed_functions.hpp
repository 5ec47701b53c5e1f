// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Lets pointers to the declared functions for which `is_wanted` holds point to functions of the
/// program that call these. Functions with variable arguments stay as they are.
void call_through_functions(llvm::Module& module,
                            llvm::function_ref<bool(llvm::Function const&)> is_wanted);

}  // namespace quarry::compiler
