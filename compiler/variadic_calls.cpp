// SPDX-License-Identifier: Apache-2.0
#include "variadic_calls.hpp"

#include <llvm/IR/IRBuilder.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr unsigned slot_bits = 64;

void give_slots(CallInst* call, FunctionCallee slotted) {
  IRBuilder<> builder{call};
  SmallVector<Value*> arguments;
  for (Value* argument : call->args()) {
    bool const is_narrow = arguments.size() >= slotted.getFunctionType()->getNumParams() &&
                           argument->getType()->isIntegerTy() &&
                           argument->getType()->getIntegerBitWidth() < slot_bits;
    arguments.push_back(is_narrow ? builder.CreateZExt(argument, builder.getIntNTy(slot_bits))
                                  : argument);
  }
  CallInst* const made = builder.CreateCall(slotted, arguments);
  made->setCallingConv(call->getCallingConv());
  made->takeName(call);
  call->replaceAllUsesWith(made);
  call->eraseFromParent();
}

}  // namespace

void give_slots_to_arguments(Module& module) {
  for (StringRef const name : {"printf", "fprintf", "sprintf", "snprintf", "asprintf"}) {
    Function* const packed = module.getFunction(("quarry_c_" + name).str());
    if (packed == nullptr || !packed->isVarArg()) continue;
    FunctionCallee const slotted =
        module.getOrInsertFunction(("quarry_c_slotted_" + name).str(), packed->getFunctionType());
    for (User* const user : make_early_inc_range(packed->users())) {
      auto* const call = dyn_cast<CallInst>(user);
      if (call != nullptr && call->getCalledFunction() == packed) give_slots(call, slotted);
    }
  }
}

}  // namespace quarry::compiler
