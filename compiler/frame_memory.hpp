// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>

namespace quarry::compiler {

/// Local variables of more bytes than this do not fit the small stack of a rank.
inline constexpr std::uint64_t max_local_bytes = 8192;

/// Moves variable-length arrays, memory of alloca(), and local variables larger than
/// max_local_bytes from the stack to the rank's heap. The memory is freed where the variable's
/// scope or the function ends. PTX cannot restore the stack, and the stack of each of 10^5 ranks
/// has to be small. On the CPU, a rank is a fiber with a small stack.
///
/// A function that has such variables keeps its blocks in a list, newest first; the list's head is
/// a local variable. What Clang emits as a saved stack pointer becomes a saved head.
void move_frames_to_heap(llvm::Module& module);

}  // namespace quarry::compiler
