// SPDX-License-Identifier: Apache-2.0
#include "library_calls.hpp"

#include "call_models.hpp"
#include "model_program.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// `*pointer = memalign(alignment, size)`; the result is 0, for success.
void expand_posix_memalign(CallBase& call) {
  IRBuilder<> builder{&call};
  Type* const size = call.getArgOperand(2)->getType();
  FunctionCallee const memalign = call.getModule()->getOrInsertFunction(
      "quarry_c_memalign", FunctionType::get(builder.getPtrTy(), {size, size}, false));
  CallInst* const memory =
      builder.CreateCall(memalign, {call.getArgOperand(1), call.getArgOperand(2)});
  memory->copyMetadata(call);
  builder.CreateStore(memory, call.getArgOperand(0));
  call.replaceAllUsesWith(Constant::getNullValue(call.getType()));
  call.eraseFromParent();
}

/// Finds the next word after `text` or, if `text` is null, after the pointer at `state`; ends the
/// word with a 0; keeps the pointer.
void expand_next_word(CallBase& call, Value* text, Value* state) {
  IRBuilder<> builder{&call};
  PointerType* const pointer = builder.getPtrTy();
  Value* start = builder.CreateLoad(pointer, state);
  if (text != nullptr) start = builder.CreateSelect(builder.CreateIsNull(text), start, text);
  FunctionCallee const search = call.getModule()->getOrInsertFunction(
      "strpbrk", FunctionType::get(pointer, {pointer, pointer}, false));
  CallInst* const next = builder.CreateCall(search, {start, call.getArgOperand(1)});
  next->copyMetadata(call);
  set_original_name(*next, original_name(call));
  builder.CreateStore(next, state);
  builder.CreateStore(builder.getInt8(0), next);
  call.replaceAllUsesWith(next);
  call.eraseFromParent();
}

/// The pointer that strtok keeps.
Value* strtok_state(Module& module) {
  constexpr char const* name = "quarry.strtok";
  if (auto* const existing = module.getNamedGlobal(name)) return existing;
  PointerType* const pointer = PointerType::getUnqual(module.getContext());
  return new GlobalVariable{module,
                            pointer,
                            /*isConstant=*/false,
                            GlobalValue::InternalLinkage,
                            ConstantPointerNull::get(pointer),
                            name};
}

}  // namespace

void expand_library_calls(Module& model) {
  SmallVector<CallBase*> calls;
  for (Function& function : model)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<CallInst>(&instruction);
          call != nullptr && call->getCalledFunction() != nullptr &&
          call->getCalledFunction()->isDeclaration())
        calls.push_back(call);
  for (CallBase* const call : calls) {
    StringRef const name = name_in_c(call->getCalledFunction()->getName());
    if (name == "posix_memalign" && call->arg_size() == 3) expand_posix_memalign(*call);
    if (name == "strtok" && call->arg_size() == 2)
      expand_next_word(*call, call->getArgOperand(0), strtok_state(model));
    if (name == "strtok_r" && call->arg_size() == 3)
      expand_next_word(*call, call->getArgOperand(0), call->getArgOperand(2));
    if (name == "strsep" && call->arg_size() == 2)
      expand_next_word(*call, nullptr, call->getArgOperand(0));
  }
}

}  // namespace quarry::compiler
