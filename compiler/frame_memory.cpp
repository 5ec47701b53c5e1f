// SPDX-License-Identifier: Apache-2.0
#include "frame_memory.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

class frame {
 public:
  explicit frame(Function& function) : function_{function} {
    DataLayout const& sizes = function.getParent()->getDataLayout();
    for (Instruction& instruction : instructions(function)) {
      if (auto* const local = dyn_cast<AllocaInst>(&instruction)) {
        auto const size = local->getAllocationSize(sizes);
        bool const is_large = size && size->getFixedValue() > max_local_bytes;
        if (!local->isStaticAlloca() || is_large) locals_.push_back(local);
      } else if (auto* const call = dyn_cast<IntrinsicInst>(&instruction)) {
        if (call->getIntrinsicID() == Intrinsic::stacksave) saves_.push_back(call);
        if (call->getIntrinsicID() == Intrinsic::stackrestore) restores_.push_back(call);
      } else if (auto* const exit = dyn_cast<ReturnInst>(&instruction)) {
        exits_.push_back(exit);
      }
    }
  }

  void move() {
    if (locals_.empty() && saves_.empty()) return;
    IRBuilder<> entry{&*function_.getEntryBlock().getFirstInsertionPt()};
    newest_ = entry.CreateAlloca(entry.getPtrTy(), nullptr, "newest_block");
    entry.SetInsertPoint(&*function_.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    start_ = entry.CreateStore(ConstantPointerNull::get(entry.getPtrTy()), newest_);
    for (AllocaInst* local : locals_) replace(local);
    for (IntrinsicInst* save : saves_) {
      IRBuilder<> builder{save};
      save->replaceAllUsesWith(builder.CreateLoad(builder.getPtrTy(), newest_));
      save->eraseFromParent();
    }
    for (IntrinsicInst* restore : restores_) {
      release(restore, restore->getArgOperand(0));
      restore->eraseFromParent();
    }
    for (ReturnInst* exit : exits_)
      release(exit, ConstantPointerNull::get(PointerType::get(function_.getContext(), 0)));
  }

 private:
  FunctionCallee runtime(char const* name, FunctionType* type) {
    return function_.getParent()->getOrInsertFunction(name, type);
  }

  void replace(AllocaInst* local) {
    IRBuilder<> builder{local};
    // The instruction after the start may be a lifetime marker, which is erased below.
    if (local->isStaticAlloca()) builder.SetInsertPoint(start_->getNextNode());
    builder.SetCurrentDebugLocation(local->getDebugLoc());
    Type* const word = builder.getInt64Ty();
    DataLayout const& sizes = function_.getParent()->getDataLayout();
    Value* const bytes =
        builder.CreateMul(builder.CreateZExtOrTrunc(local->getArraySize(), word),
                          builder.getInt64(sizes.getTypeAllocSize(local->getAllocatedType())));
    auto* const type =
        FunctionType::get(builder.getPtrTy(), {builder.getPtrTy(), word, word}, false);
    CallInst* const memory =
        builder.CreateCall(runtime("quarry_mpi_frame_allocate", type),
                           {newest_, bytes, builder.getInt64(local->getAlign().value())});
    memory->addRetAttr(Attribute::NoAlias);
    memory->addRetAttr(Attribute::NonNull);
    SmallVector<Instruction*> markers;
    for (User* user : local->users())
      if (auto* const marker = dyn_cast<IntrinsicInst>(user);
          marker != nullptr && marker->isLifetimeStartOrEnd())
        markers.push_back(marker);
    for (Instruction* marker : markers) marker->eraseFromParent();
    memory->takeName(local);
    local->replaceAllUsesWith(memory);
    local->eraseFromParent();
  }

  void release(Instruction* before, Value* until) {
    IRBuilder<> builder{before};
    auto* const type =
        FunctionType::get(builder.getVoidTy(), {builder.getPtrTy(), builder.getPtrTy()}, false);
    builder.CreateCall(runtime("quarry_mpi_frame_release", type), {newest_, until});
  }

  Function& function_;
  SmallVector<AllocaInst*> locals_;
  SmallVector<IntrinsicInst*> saves_, restores_;
  SmallVector<ReturnInst*> exits_;
  Value* newest_ = nullptr;
  StoreInst* start_ = nullptr;  // of the function: sets `newest_`
};

}  // namespace

void move_frames_to_heap(Module& module) {
  SmallVector<Function*> functions;
  for (Function& function : module)
    if (!function.isDeclaration()) functions.push_back(&function);
  for (Function* function : functions) frame{*function}.move();
}

}  // namespace quarry::compiler
