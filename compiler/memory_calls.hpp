// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Makes calls of the runtime's memcpy, memmove and memset out of LLVM's intrinsics for them,
/// unless the size is a small constant. For a GPU, LLVM makes loops of them that move a byte at a
/// time. Comes after optimisation, which knows the intrinsics.
void call_memory_functions(llvm::Module& module);

}  // namespace quarry::compiler
