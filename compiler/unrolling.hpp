// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Lets LLVM and ptxas unroll loops, which Clang forbids at the level of our bitcode. A thread of a
/// GPU waits for a value where it is first used, so that only unrolled loops have several loads
/// under way at once. Comes after functions have been inserted where they are called: LLVM inserts
/// fewer of them if their loops are unrolled before. Clang marks all loops as `#pragma nounroll`
/// marks one, so that this pragma has no effect on a GPU.
void allow_unrolling(llvm::Module& module);

}  // namespace quarry::compiler
