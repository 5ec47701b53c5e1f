// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Makes calls of the C library's functions out of LLVM's intrinsics and instructions that stand
/// for them, such as `llvm.cos.f64`. Clang uses these without errno, as with -ffast-math, but LLVM
/// makes no code of them for a GPU. Comes before the functions are connected to those of the GPU.
void call_math_functions(llvm::Module& module);

}  // namespace quarry::compiler
