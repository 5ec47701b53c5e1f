// SPDX-License-Identifier: Apache-2.0
#include "zero_divisors.hpp"

#include "unsupported.hpp"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/DomConditionCache.h>
#include <llvm/Analysis/SimplifyQuery.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// The divisor of an integer division or remainder; null for other instructions.
Value* divisor_of(Instruction const& instruction) {
  switch (instruction.getOpcode()) {
    case Instruction::SDiv:
    case Instruction::UDiv:
    case Instruction::SRem:
    case Instruction::URem:
      return instruction.getOperand(1);
    default:
      return nullptr;
  }
}

/// The divisions of a function whose divisor may be zero. Of several with one divisor, those that
/// run after another of them need no comparison.
SmallVector<Instruction*> find_divisions(Function& function) {
  DominatorTree const order{function};
  AssumptionCache assumptions{function};
  DomConditionCache conditions;
  for (BasicBlock& block : function)
    if (auto* const branch = dyn_cast<BranchInst>(block.getTerminator());
        branch != nullptr && branch->isConditional())
      conditions.registerBranch(branch);
  SimplifyQuery const known{function.getParent()->getDataLayout(),
                            nullptr,
                            &order,
                            &assumptions,
                            nullptr,
                            true,
                            true,
                            &conditions};
  SmallVector<Instruction*> found;
  for (Instruction& instruction : instructions(function)) {
    Value* const divisor = divisor_of(instruction);
    if (divisor == nullptr || isKnownNonZero(divisor, known.getWithInstruction(&instruction)))
      continue;
    found.push_back(&instruction);
  }
  SmallVector<Instruction*> needed;
  std::copy_if(found.begin(), found.end(), std::back_inserter(needed), [&](Instruction* late) {
    return std::none_of(found.begin(), found.end(), [&](Instruction* early) {
      return early != late && divisor_of(*early) == divisor_of(*late) &&
             order.dominates(early, late);
    });
  });
  return needed;
}

bool has_line(Instruction const& instruction) {
  DILocation const* location = instruction.getDebugLoc().get();
  while (location != nullptr && location->getLine() == 0) location = location->getInlinedAt();
  return location != nullptr;
}

/// The instruction whose place in the source is the division's. Optimisation drops the place of
/// an instruction that it moves. Then that of what the divisor comes from, or of an instruction
/// beside the division.
Instruction const& with_place(Instruction const& division) {
  if (has_line(division)) return division;
  auto const* origin = dyn_cast<Instruction>(divisor_of(division));
  for (int steps = 0; origin != nullptr && steps < 4; ++steps) {
    if (has_line(*origin)) return *origin;
    origin = origin->getNumOperands() == 0 ? nullptr : dyn_cast<Instruction>(origin->getOperand(0));
  }
  for (auto const* near = &division; near != nullptr; near = near->getPrevNode())
    if (has_line(*near)) return *near;
  for (auto const* near = &division; near != nullptr; near = near->getNextNode())
    if (has_line(*near)) return *near;
  return division;
}

void compare_before(Instruction& division, FunctionCallee report, std::uint32_t place) {
  IRBuilder<> builder{&division};
  Value* is_zero = builder.CreateIsNull(divisor_of(division));
  if (is_zero->getType()->isVectorTy()) is_zero = builder.CreateOrReduce(is_zero);
  MDNode* const weights = MDBuilder{division.getContext()}.createUnlikelyBranchWeights();
  Instruction* const end = SplitBlockAndInsertIfThen(is_zero, &division, true, weights);
  builder.SetInsertPoint(end);
  builder.SetCurrentDebugLocation(division.getDebugLoc());
  builder.CreateCall(report, {builder.getInt32(place)})->setDoesNotReturn();
}

}  // namespace

void report_zero_divisors(Module& module, std::vector<std::string>& places) {
  LLVMContext& context = module.getContext();
  auto* const type =
      FunctionType::get(Type::getVoidTy(context), {Type::getInt32Ty(context)}, false);
  AttributeList const attributes = AttributeList::get(context, AttributeList::FunctionIndex,
                                                      {Attribute::NoReturn, Attribute::Cold});
  std::map<std::string, std::uint32_t> numbers;
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    for (Instruction* const division : find_divisions(function)) {
      auto const [position, is_new] =
          numbers.try_emplace(place_of(with_place(*division)), places.size());
      if (is_new) places.push_back(position->first);
      compare_before(*division,
                     module.getOrInsertFunction("quarry_mpi_divides_by_zero", type, attributes),
                     position->second);
      function.removeFnAttr(Attribute::WillReturn);  // what optimisation has found
      function.removeFnAttr(Attribute::Memory);
    }
  }
}

}  // namespace quarry::compiler
