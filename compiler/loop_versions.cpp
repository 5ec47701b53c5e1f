// SPDX-License-Identifier: Apache-2.0
#include "loop_versions.hpp"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// In larger loops the values matter less.
constexpr unsigned max_instructions = 100;

class version_maker {
 public:
  version_maker(Function& function, usual_values const& values)
      : function_{function}, values_{values}, order_{function}, loops_{order_} {}

  void run() {
    SmallVector<Loop*> innermost;
    for (Loop* const loop : loops_.getLoopsInPreorder())
      if (loop->isInnermost()) innermost.push_back(loop);
    for (Loop* const loop : innermost) {
      if (!is_small(*loop) || used_in(*loop).empty() || !prepare(*loop)) continue;
      auto const used = used_in(*loop);
      if (!used.empty()) copy(*loop, used);
    }
  }

 private:
  using used_values = SmallVector<std::pair<Instruction*, ConstantInt*>>;

  [[nodiscard]] used_values used_in(Loop const& loop) const {
    used_values used;
    for (auto const& [value, constant] : values_) {
      auto* const instruction = dyn_cast_or_null<Instruction>(value);
      if (instruction == nullptr || loop.contains(instruction)) continue;
      bool const is_used = any_of(instruction->users(), [&](User* user) {
        return loop.contains(cast<Instruction>(user)->getParent());
      });
      if (is_used) used.emplace_back(instruction, constant);
    }
    return used;
  }

  static bool is_small(Loop const& loop) {
    std::size_t size = 0;
    for (BasicBlock const* const block : loop.blocks()) size += block->size();
    return size <= max_instructions;
  }

  /// Brings the loop into the form of LLVM's loop passes. Returns whether it can be copied.
  bool prepare(Loop& loop) {
    if (!loop.isSafeToClone()) return false;
    simplifyLoop(&loop, &order_, &loops_, nullptr, nullptr, nullptr, false);
    formLCSSA(loop, order_, &loops_, nullptr);
    return loop.isLoopSimplifyForm() && loop.isInnermost();
  }

  void copy(Loop& loop, used_values const& used) {
    BasicBlock* const choice = loop.getLoopPreheader();
    BasicBlock* const start =
        SplitBlock(choice, choice->getTerminator(), &order_, &loops_, nullptr, "general");
    ValueToValueMapTy copies;
    SmallVector<BasicBlock*> blocks;
    Loop* const version =
        cloneLoopWithPreheader(start, choice, &loop, copies, ".usual", &loops_, &order_, blocks);
    remapInstructionsInBlocks(blocks, copies);
    IRBuilder<> builder{choice->getTerminator()};
    Value* are_usual = builder.getTrue();
    for (auto const& [value, constant] : used) {
      are_usual = builder.CreateAnd(are_usual, builder.CreateICmpEQ(value, constant));
      value->replaceUsesWithIf(constant, [version](Use& use) {
        return version->contains(cast<Instruction>(use.getUser())->getParent());
      });
    }
    builder.CreateCondBr(are_usual, version->getLoopPreheader(), start);
    choice->getTerminator()->eraseFromParent();
    join_exits(loop, copies);
    order_.recalculate(function_);
  }

  /// After the loop, each value that it has computed may come from the copy.
  static void join_exits(Loop const& loop, ValueToValueMapTy& copies) {
    SmallVector<BasicBlock*> exits;
    loop.getUniqueExitBlocks(exits);
    for (BasicBlock* const exit : exits) {
      for (PHINode& join : exit->phis()) {
        unsigned const count = join.getNumIncomingValues();
        for (unsigned i = 0; i < count; ++i) {
          Value* const value = join.getIncomingValue(i);
          Value* const copied = copies.lookup(value);
          join.addIncoming(copied != nullptr ? copied : value,
                           cast<BasicBlock>(copies.lookup(join.getIncomingBlock(i))));
        }
      }
    }
  }

  Function& function_;
  usual_values const& values_;
  DominatorTree order_;
  LoopInfo loops_;
};

}  // namespace

void add_loop_versions(Function& function, usual_values const& values) {
  version_maker{function, values}.run();
}

}  // namespace quarry::compiler
