// SPDX-License-Identifier: Apache-2.0
#include "profiling.hpp"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Function.h>

namespace quarry::compiler {

using namespace llvm;

void bind_profiling_names(Module& module) {
  for (Function& function : module)
    if (!function.isDeclaration() && function.getName().starts_with("MPI_"))
      function.setName("own_" + function.getName());
  for (Function& function : make_early_inc_range(module)) {
    StringRef name = function.getName();
    if (!function.isDeclaration() || !name.consume_front("P") || !name.starts_with("MPI_"))
      continue;
    if (Function* const same = module.getFunction(name)) {
      function.replaceAllUsesWith(same);
      function.eraseFromParent();
    } else {
      function.setName(name);
    }
  }
}

}  // namespace quarry::compiler
