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

std::string name_in_source(Function const& function) {
  DISubprogram const* const description = function.getSubprogram();
  return description == nullptr ? function.getName().str() : description->getName().str();
}

namespace {

/// The name that the program gives a value; empty if it gives none.
std::string variable_of(Value const& value) {
  SmallVector<DbgValueInst*> intrinsics;
  SmallVector<DbgVariableRecord*> records;
  findDbgValues(intrinsics, const_cast<Value*>(&value), &records);
  // The last of the list is the first that was given the value. Others are copies of it.
  for (auto const* const each : llvm::reverse(intrinsics))
    if (each->getExpression()->getNumElements() == 0) return each->getVariable()->getName().str();
  for (auto const* const each : llvm::reverse(records))
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

/// The varying branches that decide by which block control comes to a join: those between the join
/// and the nearest block that dominates it.
SmallVector<Instruction const*> branches_before(uniformity const& facts, BasicBlock const& join) {
  SmallVector<Instruction const*> found;
  DominatorTree const dominators{*const_cast<Function*>(join.getParent())};
  auto const* const node = dominators.getNode(&join);
  BasicBlock const* const first =
      node == nullptr || node->getIDom() == nullptr ? nullptr : node->getIDom()->getBlock();
  SmallVector<BasicBlock const*> open;
  SmallPtrSet<BasicBlock const*, 16> done;
  auto const go_on_before = [&](BasicBlock const& block) {
    for (BasicBlock const* const before : predecessors(&block))
      if (done.insert(before).second) open.push_back(before);
  };
  go_on_before(join);
  while (!open.empty()) {
    BasicBlock const* const block = open.pop_back_val();
    if (facts.has_varying_branch(*block)) found.push_back(block->getTerminator());
    if (block != first) go_on_before(*block);
  }
  return found;
}

/// The branch that the program has. Clang makes a switch without a place for `break` and `return`
/// in a scope whose variables end: its operand joins the numbers of the ways out, and the branches
/// before the join are what a person sees.
Instruction const& shown_branch(uniformity const& facts, Instruction const& branch) {
  std::deque<Instruction const*> open{&branch};
  SmallPtrSet<Instruction const*, 16> done;
  while (!open.empty() && done.size() < 64) {
    Instruction const* const next = open.front();
    open.pop_front();
    if (!done.insert(next).second) continue;
    if (next->isTerminator() && !place_of(*next).empty()) return *next;
    if (auto const* const join = dyn_cast<PHINode>(next)) {
      auto const before = branches_before(facts, *join->getParent());
      open.insert(open.end(), before.begin(), before.end());
    } else {
      for (Use const& operand : next->operands())
        if (auto const* const made = dyn_cast<Instruction>(operand.get())) open.push_back(made);
    }
  }
  return branch;
}

/// The model of the function that a call of the program called.
call_model const* row_of(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  if (called == nullptr) return nullptr;
  bool const is_model = called->getName().starts_with(model_prefix);
  return model_of(is_model ? original_name(call) : name_in_c(called->getName()));
}

/// Whether ranks differ after a call although they call it alike.
bool is_varying(call_model const& row) {
  return row.result == model::varying || llvm::any_of(row.effects, [](effect const& written) {
           return written.value == model::varying;
         });
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
    if (auto const* const argument = dyn_cast<Argument>(&value);
        argument != nullptr && facts_.is_source(argument) && facts_.cause_of(argument) == nullptr)
      return "an argument of " + name_in_source(*argument->getParent()) +
             ", which is called through a pointer";
    auto const* const instruction = dyn_cast<Instruction>(&value);
    if (instruction == nullptr) return {};
    if (isa<PtrToIntInst, ICmpInst>(instruction))
      return facts_.is_source(instruction) ? "the address of an object" + at(*instruction)
                                           : std::string{};
    if (auto const* const reader = dyn_cast<LoadInst>(instruction);
        reader != nullptr && facts_.is_unknown(reader->getPointerOperand()))
      return "memory at an address that the analysis does not know" + at(*reader);
    auto const* const call = dyn_cast<CallBase>(instruction);
    if (call != nullptr && isa<VAStartInst>(call)) return "variable arguments" + at(*call);
    if (call == nullptr || isa<IntrinsicInst>(call)) return {};
    Function const* const called = call->getCalledFunction();
    if (called == nullptr) return "a call through a pointer" + at(*call);
    if (!called->isDeclaration()) return {};
    call_model const* const row = row_of(*call);
    bool const is_known = row != nullptr;
    if (is_known && row->kind == returned::memory) return {};  // an allocation of some ranks
    if (is_known && !is_varying(*row) && !facts_.is_collective(*call->getParent())) return {};
    if (called->getName().starts_with(model_prefix)) {
      if (!facts_.is_source(call)) return {};
    } else if (!is_known) {
      return original_name(*call).str() + at(*call) + ", which the analysis does not know";
    } else if (!facts_.is_source(call) && !call->getType()->isVoidTy() && facts_.varies(call)) {
      return {};
    }
    for (Use const& argument : call->args())
      if (depends_on(*call, argument)) return {};
    if (is_known && writer_of_inputs(*call) != nullptr) return {};
    std::string const text = original_name(*call).str() + at(*call);
    return is_known && meets_others(*row) ? text + ", whose communicator may not have all ranks"
                                          : text;
  }

  /// The writer of varying bytes on which the call's result or writes depend.
  Instruction const* writer_of_inputs(CallBase const& call) const {
    auto const* const row = row_of(call);
    bool depends = row != nullptr && row->result == model::of_inputs;
    if (row == nullptr) return nullptr;
    unsigned first = 0;
    for (effect const& written : row->effects) {
      bool const has_counts = written.value == model::collective && written.count < 0;
      depends |= written.value == model::of_inputs || has_counts;
      if (has_counts) first = static_cast<unsigned>(written.argument) + 1;
    }
    if (auto const* const copy = allocation_of(row->name)) depends |= copy->copies_text;
    if (!depends) return nullptr;
    for (unsigned i = first; i < call.arg_size(); ++i)
      if (Value const* const argument = call.getArgOperand(i); argument->getType()->isPointerTy())
        if (auto const* const writer = facts_.varying_write(argument, 0, call);
            writer != nullptr && writer != &call)
          return writer;
    return nullptr;
  }

  /// Whether what the function writes is the same in the ranks that call it together.
  static bool meets_others(call_model const& row) {
    return llvm::any_of(row.effects, [](effect const& written) {
      return written.value == model::collective || written.value == model::of_world;
    });
  }

  /// Whether a call's result or writes vary because an argument does.
  bool depends_on(CallBase const& call, Use const& argument) const {
    auto const* const row = row_of(call);
    if (row == nullptr || !facts_.varies(argument)) return false;
    return row->result == model::of_inputs || llvm::any_of(row->effects, [](effect const& written) {
             return written.value == model::of_inputs || written.value == model::of_world ||
                    written.value == model::collective;
           });
  }

  void push_branch(BasicBlock const& block, Value const* before) {
    Instruction const* const branch = facts_.branch_over(block);
    if (branch != nullptr) push(*branch, before);
  }

  /// A value may be uniform in a loop and vary after it, if ranks leave the loop in different
  /// iterations.
  void push(Use const& use, Value const* before) {
    if (!facts_.varies(use)) return;
    push(*use.get(), before);
    auto const* const made = dyn_cast<Instruction>(use.get());
    if (made == nullptr || facts_.varies(made)) return;
    CycleInfo cycles;
    cycles.compute(*const_cast<Function*>(made->getFunction()));
    auto const* const user = cast<Instruction>(use.getUser());
    for (auto const* cycle = cycles.getCycle(made->getParent());
         cycle != nullptr && !cycle->contains(user->getParent()); cycle = cycle->getParentCycle()) {
      for (BasicBlock const* const block : cycle->blocks()) {
        bool leaves = false;
        for (BasicBlock const* const next : successors(block)) leaves |= !cycle->contains(next);
        if (leaves && facts_.has_varying_branch(*block)) push(*block->getTerminator(), before);
      }
    }
  }

  void expand(Value const& value) {
    if (auto const* const argument = dyn_cast<Argument>(&value)) {
      auto const* const call = dyn_cast_or_null<CallBase>(facts_.cause_of(argument));
      if (call != nullptr && argument->getArgNo() < call->arg_size())
        push(call->getArgOperandUse(argument->getArgNo()), &value);
      return;
    }
    auto const* const instruction = dyn_cast<Instruction>(&value);
    if (instruction == nullptr) return;
    if (Instruction const* const cause = facts_.cause_of(instruction)) push(*cause, &value);
    if (auto const* const copy = dyn_cast<MemTransferInst>(instruction))
      if (auto const* const writer = facts_.varying_write(copy->getRawSource(), 0, *copy))
        push(*writer, &value);
    if (auto const* const call = dyn_cast<CallBase>(instruction))
      if (Instruction const* const writer = writer_of_inputs(*call)) push(*writer, &value);
    for (Use const& operand : instruction->operands())
      if (!isa<BasicBlock>(operand.get())) push(operand, &value);
    if (auto const* const join = dyn_cast<PHINode>(instruction)) {
      for (Instruction const* const branch : branches_before(facts_, *join->getParent()))
        push(*branch, &value);
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
    return what + at(shown_branch(facts, *branch)) + " depends on " + search{facts}.from(*branch);
  }
  Function const& function = *block.getParent();
  if (Instruction const* const call = facts.divergent_call_of(function))
    return why_not_collective(facts, *call->getParent());
  return name_in_source(function) + (function.callsFunctionThatReturnsTwice()
                                         ? " calls setjmp"
                                         : " is called through a pointer");
}

}  // namespace quarry::compiler
