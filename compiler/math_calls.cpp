// SPDX-License-Identifier: Apache-2.0
#include "math_calls.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <string>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// The function for double that an intrinsic stands for, if LLVM cannot make code of it for a GPU,
/// or makes code with less precision. Else an empty name.
StringRef function_of(Intrinsic::ID intrinsic) {
  switch (intrinsic) {
    case Intrinsic::sin:
      return "sin";
    case Intrinsic::cos:
      return "cos";
    case Intrinsic::tan:
      return "tan";
    case Intrinsic::asin:
      return "asin";
    case Intrinsic::acos:
      return "acos";
    case Intrinsic::atan:
      return "atan";
    case Intrinsic::sinh:
      return "sinh";
    case Intrinsic::cosh:
      return "cosh";
    case Intrinsic::tanh:
      return "tanh";
    case Intrinsic::exp:
      return "exp";
    case Intrinsic::exp2:
      return "exp2";
    case Intrinsic::exp10:
      return "exp10";
    case Intrinsic::log:
      return "log";
    case Intrinsic::log2:
      return "log2";
    case Intrinsic::log10:
      return "log10";
    case Intrinsic::pow:
      return "pow";
    case Intrinsic::ldexp:
      return "ldexp";
    case Intrinsic::lround:
      return "lround";
    case Intrinsic::llround:
      return "llround";
    case Intrinsic::lrint:
      return "lrint";
    case Intrinsic::llrint:
      return "llrint";
    default:
      return {};
  }
}

/// The function for double that the instruction stands for, or an empty name.
StringRef function_of(Instruction const& instruction) {
  if (instruction.getOpcode() == Instruction::FRem) return "fmod";
  auto const* const intrinsic = dyn_cast<IntrinsicInst>(&instruction);
  return intrinsic == nullptr ? StringRef{} : function_of(intrinsic->getIntrinsicID());
}

void call_instead(Instruction& instruction, StringRef name) {
  Type* const number = instruction.getOperand(0)->getType();
  auto const* const call = dyn_cast<CallInst>(&instruction);
  SmallVector<Value*> const arguments = call != nullptr
                                            ? SmallVector<Value*>{call->args()}
                                            : SmallVector<Value*>{instruction.operands()};
  SmallVector<Type*> types;
  for (Value* const argument : arguments) types.push_back(argument->getType());
  std::string const full = name.str() + (number->isFloatTy() ? "f" : "");
  Module& module = *instruction.getModule();
  // A static function of the program may have the name, too.
  Function* const own = module.getFunction(full);
  if (own != nullptr && own->hasLocalLinkage()) own->setName(full + ".own");
  FunctionCallee const callee =
      module.getOrInsertFunction(full, FunctionType::get(instruction.getType(), types, false));
  instruction.replaceAllUsesWith(IRBuilder<>{&instruction}.CreateCall(callee, arguments));
  instruction.eraseFromParent();
}

}  // namespace

void call_math_functions(Module& module) {
  SmallVector<std::pair<Instruction*, StringRef>> found;
  for (Function& function : module) {
    for (Instruction& instruction : instructions(function)) {
      StringRef const name = function_of(instruction);
      if (name.empty()) continue;
      Type* const number = instruction.getOperand(0)->getType();
      if (number->isFloatTy() || number->isDoubleTy()) found.emplace_back(&instruction, name);
    }
  }
  for (auto const& [instruction, name] : found) call_instead(*instruction, name);
}

}  // namespace quarry::compiler
