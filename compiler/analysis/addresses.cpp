// SPDX-License-Identifier: Apache-2.0
// Which results depend on where objects lie in a rank's memory.
#include "uniformity.hpp"

#include <llvm/IR/IntrinsicInst.h>

namespace quarry::compiler {

using namespace llvm;

bool uniformity::reads_address(Instruction const& instruction) const {
  if (auto const* const reader = dyn_cast<LoadInst>(&instruction)) {
    DataLayout const& layout = model_.getDataLayout();
    return reader->getType()->isIntegerTy() &&
           memory_.may_hold_pointer(reader->getPointerOperand(),
                                    layout.getTypeStoreSize(reader->getType()).getFixedValue());
  }
  auto const* const call = dyn_cast<IntrinsicInst>(&instruction);
  if (call == nullptr) return false;
  switch (call->getIntrinsicID()) {
    case Intrinsic::readcyclecounter:
    case Intrinsic::readsteadycounter:
    case Intrinsic::returnaddress:
    case Intrinsic::frameaddress:
      return true;
    default:
      return false;
  }
}

bool uniformity::compares_addresses(ICmpInst const& comparison) const {
  Value const* const left = comparison.getOperand(0);
  Value const* const right = comparison.getOperand(1);
  if (!left->getType()->isPointerTy() || isa<ConstantPointerNull>(left) ||
      isa<ConstantPointerNull>(right))
    return false;
  pointees const a = memory_.pointees_of(left);
  pointees const b = memory_.pointees_of(right);
  if (a.is_unknown() || b.is_unknown()) return true;
  if (comparison.isEquality()) return false;
  for (pointee const& first : a.known())
    for (pointee const& second : b.known())
      if (first.object != second.object) return true;
  return false;
}

bool uniformity::subtracts_addresses(BinaryOperator const& difference) const {
  auto const* const left = dyn_cast<PtrToIntInst>(difference.getOperand(0));
  auto const* const right = dyn_cast<PtrToIntInst>(difference.getOperand(1));
  if (left == nullptr || right == nullptr) return false;
  pointees const a = memory_.pointees_of(left->getPointerOperand());
  pointees const b = memory_.pointees_of(right->getPointerOperand());
  bool is_one_object = !a.is_unknown() && !b.is_unknown();
  for (pointee const& first : a.known())
    for (pointee const& second : b.known())
      is_one_object = is_one_object && first.object == second.object;
  return !is_one_object;
}

}  // namespace quarry::compiler
