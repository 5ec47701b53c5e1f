// SPDX-License-Identifier: Apache-2.0
#include "memory_calls.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// Up to this size LLVM makes loads and stores without a loop.
constexpr std::uint64_t inline_bytes = 64;

char const* runtime_function(MemIntrinsic const& intrinsic) {
  if (isa<MemCpyInst>(intrinsic)) return "quarry_c_memcpy";
  return isa<MemMoveInst>(intrinsic) ? "quarry_c_memmove" : "quarry_c_memset";
}

void call_instead(MemIntrinsic& intrinsic) {
  IRBuilder<> builder{&intrinsic};
  Type* const pointer = builder.getPtrTy();
  Value* const size = builder.CreateZExtOrTrunc(intrinsic.getLength(), builder.getInt64Ty());
  Value* const to = builder.CreateAddrSpaceCast(intrinsic.getRawDest(), pointer);
  Value* second = nullptr;
  if (auto* const transfer = dyn_cast<MemTransferInst>(&intrinsic)) {
    second = builder.CreateAddrSpaceCast(transfer->getRawSource(), pointer);
  } else {
    second = builder.CreateZExt(cast<MemSetInst>(intrinsic).getValue(), builder.getInt32Ty());
  }
  auto* const type =
      FunctionType::get(pointer, {pointer, second->getType(), builder.getInt64Ty()}, false);
  FunctionCallee const callee =
      intrinsic.getModule()->getOrInsertFunction(runtime_function(intrinsic), type);
  builder.CreateCall(callee, {to, second, size});
  intrinsic.eraseFromParent();
}

}  // namespace

void call_memory_functions(Module& module) {
  SmallVector<MemIntrinsic*> found;
  for (Function& function : module) {
    for (Instruction& instruction : instructions(function)) {
      auto* const intrinsic = dyn_cast<MemIntrinsic>(&instruction);
      if (intrinsic == nullptr || intrinsic->isVolatile()) continue;
      auto const* const size = dyn_cast<ConstantInt>(intrinsic->getLength());
      if (size == nullptr || size->getZExtValue() > inline_bytes) found.push_back(intrinsic);
    }
  }
  for (MemIntrinsic* const intrinsic : found) call_instead(*intrinsic);
}

}  // namespace quarry::compiler
