// SPDX-License-Identifier: Apache-2.0
#include "pointed_functions.hpp"

#include <llvm/IR/IRBuilder.h>

namespace quarry::compiler {

using namespace llvm;

void call_through_functions(Module& module, function_ref<bool(Function const&)> is_wanted) {
  SmallVector<Function*> pointed;
  for (Function& function : module)
    if (function.isDeclaration() && !function.isVarArg() && function.hasAddressTaken() &&
        is_wanted(function))
      pointed.push_back(&function);
  for (Function* const function : pointed) {
    auto* const caller = Function::Create(function->getFunctionType(), GlobalValue::InternalLinkage,
                                          "quarry.pointed." + function->getName(), module);
    function->replaceUsesWithIf(caller, [](Use const& use) {
      auto const* const call = dyn_cast<CallBase>(use.getUser());
      return call == nullptr || !call->isCallee(&use);
    });
    IRBuilder<> builder{BasicBlock::Create(module.getContext(), "", caller)};
    SmallVector<Value*> arguments;
    for (Argument& argument : caller->args()) arguments.push_back(&argument);
    CallInst* const call = builder.CreateCall(function, arguments);
    if (call->getType()->isVoidTy()) {
      builder.CreateRetVoid();
    } else {
      builder.CreateRet(call);
    }
  }
}

}  // namespace quarry::compiler
