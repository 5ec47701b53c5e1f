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
    SmallVector<CallInst*> calls;
    for (Use& use : packed->uses()) {  // a call may also have the function as an argument
      auto* const call = dyn_cast<CallInst>(use.getUser());
      if (call != nullptr && call->isCallee(&use) && call->getCalledFunction() == packed)
        calls.push_back(call);
    }
    for (CallInst* const call : calls) give_slots(call, slotted);
  }
}

}  // namespace quarry::compiler
