// SPDX-License-Identifier: Apache-2.0
#include "unrolling.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Metadata.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

bool forbids_unrolling(Metadata const* property) {
  auto const* const node = dyn_cast_or_null<MDNode>(property);
  if (node == nullptr || node->getNumOperands() == 0) return false;
  auto const* const name = dyn_cast<MDString>(node->getOperand(0));
  return name != nullptr && name->getString() == "llvm.loop.unroll.disable";
}

}  // namespace

void allow_unrolling(Module& module) {
  DenseMap<MDNode*, MDNode*> allowed;  // a loop can have several branches to its start
  for (Function& function : module) {
    for (BasicBlock& block : function) {
      Instruction& end = *block.getTerminator();
      MDNode* const loop = end.getMetadata(LLVMContext::MD_loop);
      if (loop == nullptr) continue;
      MDNode*& changed = allowed[loop];
      if (changed == nullptr) {
        SmallVector<Metadata*> kept{nullptr};  // the first names the loop itself
        for (MDOperand const& property : drop_begin(loop->operands()))
          if (!forbids_unrolling(property)) kept.push_back(property);
        changed = MDNode::getDistinct(module.getContext(), kept);
        changed->replaceOperandWith(0, changed);
      }
      end.setMetadata(LLVMContext::MD_loop, changed);
    }
  }
}

}  // namespace quarry::compiler
