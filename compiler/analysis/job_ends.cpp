// SPDX-License-Identifier: Apache-2.0
#include "job_ends.hpp"

#include "call_models.hpp"
#include "call_waits.hpp"
#include "model_program.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Local.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// Stands for an exit that the model does not show.
constexpr char const* hidden_exit = "quarry.model.exit";

ending ending_of(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  if (called == nullptr) return ending::none;
  auto const* const row = model_of(call);
  return row == nullptr ? ending::none : row->end;
}

/// Whether the branch to the call's block asks whether its argument is 0: if (error) exit(error).
bool is_never_zero(CallBase const& call) {
  BasicBlock const* const block = call.getParent();
  BasicBlock const* const before = block->getSinglePredecessor();
  auto const* const branch =
      before == nullptr ? nullptr : dyn_cast<BranchInst>(before->getTerminator());
  if (call.arg_empty() || branch == nullptr || !branch->isConditional()) return false;
  auto const* const comparison = dyn_cast<ICmpInst>(branch->getCondition());
  if (comparison == nullptr || !comparison->isEquality() ||
      comparison->getOperand(0) != call.getArgOperand(0) ||
      !match(comparison->getOperand(1), PatternMatch::m_Zero()))
    return false;
  bool const is_taken_if_true = branch->getSuccessor(0) == block;
  return (comparison->getPredicate() == CmpInst::ICMP_NE) == is_taken_if_true;
}

/// Whether a rank ends or jumps at this call while the job goes on.
bool leaves(CallBase const& call) {
  switch (ending_of(call)) {
    case ending::jump:
      return true;
    case ending::by_status: {
      auto const* const code =
          call.arg_empty() ? nullptr : dyn_cast<ConstantInt>(call.getArgOperand(0));
      return code == nullptr ? !is_never_zero(call) : (code->getZExtValue() & 0xff) == 0;
    }
    default:
      return call.getCalledFunction() != nullptr &&
             call.getCalledFunction()->getName() == hidden_exit;
  }
}

/// Whether the job ends at the end of the block.
bool ends_job(BasicBlock const& block) {
  if (!isa<UnreachableInst>(block.getTerminator())) return false;
  for (Instruction const& instruction : block)
    if (auto const* const call = dyn_cast<CallBase>(&instruction); call != nullptr && leaves(*call))
      return false;
  return true;
}

/// The blocks from which no path leads to a return, or to an end of the rank alone. A loop without
/// exit is none of these: a program may serve messages for ever.
SmallPtrSet<BasicBlock*, 32> ending_blocks(Function& function) {
  SmallPtrSet<BasicBlock*, 32> ending;
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (BasicBlock& block : function) {
      if (ending.contains(&block)) continue;
      Instruction const* const last = block.getTerminator();
      bool ends = ends_job(block) || last->getNumSuccessors() > 0;
      for (unsigned i = 0; i < last->getNumSuccessors(); ++i)
        ends = ends && ending.contains(last->getSuccessor(i));
      if (ends) is_changed |= ending.insert(&block).second;
    }
  }
  return ending;
}

/// Whether a library function can call a function of the program.
bool can_call_back(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  if (called == nullptr || !called->isDeclaration() || isa<IntrinsicInst>(call)) return false;
  if (call_model const* const row = model_of(call)) return row->calls_back;
  return llvm::any_of(call.args(), [](Use const& each) { return isa<Function>(each.get()); });
}

bool is_leaving(Function& function, std::set<Function*> const& known, bool through_pointers) {
  for (Instruction const& instruction : instructions(function)) {
    auto const* const call = dyn_cast<CallBase>(&instruction);
    if (call == nullptr || call->isInlineAsm()) continue;
    Function* const called = call->getCalledFunction();
    bool const is_indirect = called == nullptr || can_call_back(*call);
    if (leaves(*call) || known.contains(called) || (is_indirect && through_pointers)) return true;
  }
  return false;
}

/// Adds what the model must know of a path that is removed after this block: that ranks can wait
/// there for others (waiting_end, meeting_end).
void keep_waits(BasicBlock& block, BasicBlock& ended) {
  CallBase const* waits = nullptr;
  bool meets = false;
  SmallVector<BasicBlock const*> open{&ended};
  SmallPtrSet<BasicBlock const*, 8> done{&ended};
  while (!open.empty()) {
    BasicBlock const* const next = open.pop_back_val();
    for (Instruction const& instruction : *next) {
      auto const* const call = dyn_cast<CallBase>(&instruction);
      if (call == nullptr) continue;
      company const found = wait_of(*call).waits_for;
      Function const* const called = call->getCalledFunction();
      bool const is_unknown = called == nullptr || !called->isDeclaration();
      if (found != company::none || is_unknown) waits = call;
      meets = meets || is_unknown || found == company::together || found == company::all;
    }
    for (BasicBlock const* const after : successors(next))
      if (done.insert(after).second) open.push_back(after);
  }
  if (waits == nullptr) return;
  IRBuilder<> builder{block.getTerminator()};
  builder.SetCurrentDebugLocation(waits->getDebugLoc());
  FunctionCallee const mark = block.getModule()->getOrInsertFunction(
      meets ? meeting_end : waiting_end, FunctionType::get(builder.getVoidTy(), false));
  set_original_name(*builder.CreateCall(mark), original_name(*waits));
}

}  // namespace

void end_after(CallInst& call) {
  if (!isa<UnreachableInst>(call.getNextNode())) changeToUnreachable(call.getNextNode());
}

void end_at_exits(Function& function) {
  SmallVector<WeakTrackingVH> ends;  // the end after one call can delete the next
  for (Instruction& instruction : instructions(function))
    if (auto* const call = dyn_cast<CallInst>(&instruction);
        call != nullptr && ending_of(*call) != ending::none)
      ends.push_back(call);
  for (WeakTrackingVH const& end : ends)
    if (auto* const call = dyn_cast_or_null<CallInst>(static_cast<Value*>(end))) end_after(*call);
}

void remove_ending_paths(Function& function) {
  auto const ending = ending_blocks(function);
  if (ending.contains(&function.getEntryBlock())) return;  // e.g. a function that reports an error
  for (BasicBlock& block : function) {
    if (ending.contains(&block)) continue;
    Instruction* const last = block.getTerminator();
    if (auto* const branch = dyn_cast<BranchInst>(last);
        branch != nullptr && branch->isConditional()) {
      for (unsigned i = 0; i < 2; ++i) {
        BasicBlock* const ended = branch->getSuccessor(i);
        if (!ending.contains(ended)) continue;
        keep_waits(block, *ended);
        BasicBlock* const other = branch->getSuccessor(1 - i);
        ended->removePredecessor(&block);
        BranchInst::Create(other, branch->getIterator())->setDebugLoc(branch->getDebugLoc());
        branch->eraseFromParent();
        break;
      }
    } else if (auto* const table = dyn_cast<SwitchInst>(last)) {
      for (auto each = table->case_begin(); each != table->case_end();) {
        if (ending.contains(each->getCaseSuccessor())) {
          keep_waits(block, *each->getCaseSuccessor());
          each->getCaseSuccessor()->removePredecessor(&block);
          each = table->removeCase(each);
        } else {
          ++each;
        }
      }
      if (ending.contains(table->getDefaultDest()) && table->getNumCases() > 0) {
        keep_waits(block, *table->getDefaultDest());
        BasicBlock* const other = table->case_begin()->getCaseSuccessor();
        table->getDefaultDest()->removePredecessor(&block);
        for (PHINode& join : other->phis())
          join.addIncoming(join.getIncomingValueForBlock(&block), &block);
        table->setDefaultDest(other);
      }
    }
  }
  removeUnreachableBlocks(function);
}

std::set<Function*> leaving_functions(Module& model) {
  std::set<Function*> leaving;
  bool through_pointers = false;
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Function& function : model) {
      if (function.isDeclaration() || leaving.contains(&function) ||
          !is_leaving(function, leaving, through_pointers))
        continue;
      leaving.insert(&function);
      through_pointers = through_pointers || function.hasAddressTaken();
      is_changed = true;
    }
  }
  if (through_pointers) leaving.insert(nullptr);
  return leaving;
}

void add_hidden_exits(Function& function, std::set<Function*> const& leaving) {
  if (leaving.empty()) return;
  SmallVector<CallInst*> calls;
  for (Instruction& instruction : instructions(function)) {
    auto* const call = dyn_cast<CallInst>(&instruction);
    if (call == nullptr || call->isInlineAsm()) continue;
    Function* const called = call->getCalledFunction();
    bool const is_declared = called != nullptr && called->isDeclaration();
    if (leaving.contains(can_call_back(*call) ? nullptr : called) &&
        (!is_declared || can_call_back(*call)))
      calls.push_back(call);
  }
  Module& module = *function.getParent();
  IRBuilder<> builder{module.getContext()};
  for (CallInst* const call : calls) {
    Instruction* const next = call->getNextNode();
    FunctionCallee const exit =
        module.getOrInsertFunction(hidden_exit, FunctionType::get(builder.getVoidTy(), false));
    if (isa<UnreachableInst>(next)) {
      builder.SetInsertPoint(next);
      builder.CreateCall(exit);
      continue;
    }
    FunctionCallee const varying = module.getOrInsertFunction(
        std::string{model_prefix} + "varying.exit", FunctionType::get(builder.getInt1Ty(), true));
    builder.SetInsertPoint(next);
    builder.SetCurrentDebugLocation(call->getDebugLoc());
    CallInst* const condition = builder.CreateCall(varying);
    set_original_name(*condition, "exit");
    Instruction* const end = SplitBlockAndInsertIfThen(condition, next, /*Unreachable=*/true);
    condition->getParent()->getTerminator()->setDebugLoc(call->getDebugLoc());
    builder.SetInsertPoint(end);
    builder.CreateCall(exit);
  }
}

bool always_ends_job(Function& function) {
  return !function.isDeclaration() && ending_blocks(function).contains(&function.getEntryBlock());
}

}  // namespace quarry::compiler
