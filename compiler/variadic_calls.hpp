// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// GPU: makes direct calls of printf and the like pass each argument in a slot of at least 8 bytes,
/// as x86-64 does: integers of fewer bits are extended by zeros, and the call goes to the runtime's
/// function that expects slots (c_variadic.hpp). Without slots, an argument of another size than
/// its conversion says moves all later ones: `printf("%d %d", sizeof x, n)` would print 0 for n.
/// Calls through pointers keep packed arguments, and so do the program's own variadic functions.
/// Comes after all that knows these functions by name.
void give_slots_to_arguments(llvm::Module& module);

}  // namespace quarry::compiler
