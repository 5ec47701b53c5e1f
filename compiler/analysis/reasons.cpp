// SPDX-License-Identifier: Apache-2.0
#include "reasons.hpp"

#include "../unsupported.hpp"
#include "model_program.hpp"

#include <llvm/Analysis/CycleAnalysis.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IntrinsicInst.h>

#include <deque>
#include <map>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// The name that the program gives a value; empty if it gives none.
std::string variable_of(Value const& value) {
  SmallVector<DbgValueInst*> intrinsics;
  SmallVector<DbgVariableRecord*> records;
  findDbgValues(intrinsics, const_cast<Value*>(&value), &records);
  for (auto const* const each : intrinsics)
    if (each->getExpression()->getNumElements() == 0) return each->getVariable()->getName().str();
  for (auto const* const each : records)
    if (each->getExpression()->getNumElements() == 0) return each->getVariable()->getName().str();
  auto const* const reader = dyn_cast<LoadInst>(&value);
  if (reader == nullptr) return {};
  Value const* const base = reader->getPointerOperand()->stripInBoundsOffsets();
  return isa<GlobalVariable>(base) ? base->getName().str() : std::string{};
}

std::string at(Instruction const& instruction) {
  std::string const place = place_of(instruction);
  return place.empty() ? std::string{} : " at " + place;
}

/// Searches from a varying value to the nearest place where ranks begin to differ.
class search {
 public:
  explicit search(uniformity const& facts) : facts_{facts} {}

  std::string from(Value const& value) {
    push(value, nullptr);
    while (!open_.empty() && came_from_.size() < max_steps) {
      Value const* const next = open_.front();
      open_.pop_front();
      std::string const source = source_of(*next);
      if (!source.empty()) return described(*next, source);
      expand(*next);
    }
    std::string const name = variable_of(value);
    return name.empty() ? "a value that differs between ranks" : "`" + name + "`";
  }

 private:
  static constexpr std::size_t max_steps = 20'000;

  void push(Value const& value, Value const* before) {
    if (came_from_.try_emplace(&value, before).second) open_.push_back(&value);
  }

  /// Where ranks begin to differ, if it is this value.
  std::string source_of(Value const& value) const {
    auto const* const instruction = dyn_cast<Instruction>(&value);
    if (instruction == nullptr) return {};
    if (isa<PtrToIntInst, ICmpInst>(instruction))
      return facts_.is_source(instruction) ? "the address of an object" + at(*instruction)
                                           : std::string{};
    auto const* const call = dyn_cast<CallBase>(instruction);
    if (call == nullptr || isa<IntrinsicInst>(call)) return {};
    Function const* const called = call->getCalledFunction();
    if (called == nullptr) return "a call through a pointer" + at(*call);
    if (!called->isDeclaration()) return {};
    if (called->getName().starts_with(model_prefix)) {
      if (!facts_.is_source(call)) return {};
    } else if (model_of(name_in_c(called->getName())) == nullptr) {
      return original_name(*call).str() + at(*call) + ", which the analysis does not know";
    } else if (!facts_.is_source(call) && !call->getType()->isVoidTy() && facts_.varies(call)) {
      return {};
    }
    for (Use const& argument : call->args())
      if (depends_on(*call, argument)) return {};
    return original_name(*call).str() + at(*call);
  }

  /// Whether a call's result or writes vary because an argument does.
  bool depends_on(CallBase const& call, Use const& argument) const {
    StringRef const name = original_name(call);
    auto const* const row = model_of(name);
    bool const is_of_inputs = row != nullptr && row->result == model::of_inputs;
    return is_of_inputs && facts_.varies(argument);
  }

  void push_branch(BasicBlock const& block, Value const* before) {
    Instruction const* const branch = facts_.branch_over(block);
    if (branch != nullptr) push(*branch, before);
  }

  void expand(Value const& value) {
    if (auto const* const argument = dyn_cast<Argument>(&value)) {
      auto const* const call = dyn_cast_or_null<CallBase>(facts_.cause_of(argument));
      if (call != nullptr && argument->getArgNo() < call->arg_size())
        push(*call->getArgOperand(argument->getArgNo()), &value);
      return;
    }
    auto const* const instruction = dyn_cast<Instruction>(&value);
    if (instruction == nullptr) return;
    if (Instruction const* const cause = facts_.cause_of(instruction)) push(*cause, &value);
    for (Use const& operand : instruction->operands())
      if (!isa<BasicBlock>(operand.get()) && facts_.varies(operand)) push(*operand.get(), &value);
    if (auto const* const join = dyn_cast<PHINode>(instruction)) {
      for (BasicBlock const* const block : join->blocks()) {
        push_branch(*block, &value);
        if (facts_.has_varying_branch(*block)) push(*block->getTerminator(), &value);
      }
    } else if (isa<StoreInst, CallBase, ReturnInst>(instruction)) {
      push_branch(*instruction->getParent(), &value);
      if (Instruction const* const call = facts_.divergent_call_of(*instruction->getFunction()))
        push_branch(*call->getParent(), &value);
    }
  }

  /// The source, with the last named variable on the way to it.
  std::string described(Value const& source, std::string const& text) const {
    for (Value const* value = &source; value != nullptr; value = came_from_.at(value)) {
      std::string const name = variable_of(*value);
      if (!name.empty()) return "`" + name + "`, from " + text;
    }
    return text;
  }

  uniformity const& facts_;
  std::deque<Value const*> open_;
  std::map<Value const*, Value const*> came_from_;
};

bool is_loop_exit(Instruction const& branch, BasicBlock const& block) {
  // A branch that decides about its own block is a loop's.
  DominatorTree const dominators{*const_cast<Function*>(block.getParent())};
  for (BasicBlock const* const next : successors(branch.getParent()))
    if (dominators.dominates(next, branch.getParent())) return true;
  CycleInfo cycles;
  cycles.compute(*const_cast<Function*>(block.getParent()));
  auto const* const cycle = cycles.getCycle(branch.getParent());
  if (cycle == nullptr || !cycle->contains(&block)) return false;
  for (BasicBlock const* const next : successors(branch.getParent()))
    if (!cycle->contains(next)) return true;
  return false;
}

}  // namespace

std::string why_varying(uniformity const& facts, Value const& value) {
  return search{facts}.from(value);
}

std::string why_not_collective(uniformity const& facts, BasicBlock const& block) {
  Instruction const* const branch = facts.branch_over(block);
  if (branch != nullptr) {
    bool const is_loop = is_loop_exit(*branch, block);
    std::string const what = is_loop ? "the number of iterations of the loop" : "the branch";
    return what + at(*branch) + " depends on " + search{facts}.from(*branch);
  }
  Function const& function = *block.getParent();
  if (Instruction const* const call = facts.divergent_call_of(function))
    return why_not_collective(facts, *call->getParent());
  return function.getName().str() + " is called through a pointer";
}

}  // namespace quarry::compiler
