// SPDX-License-Identifier: Apache-2.0
#include "merge_arms.hpp"

#include "analysis/call_models.hpp"
#include "analysis/explain.hpp"
#include "analysis/model_program.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>
#include <optional>
#include <set>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// The places of merged calls: a scope, a line and a column of each. A node of a function's
/// metadata must not have a DILocation.
constexpr char const* merged_kind = "quarry.merged";

/// Limits of a search: blocks between a branch and its allocations, and parts of a size.
constexpr std::size_t max_blocks = 64;
constexpr unsigned max_depth = 16;

bool is_mergeable(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  if (called == nullptr || !called->isDeclaration() || !isa<CallInst>(call)) return false;
  StringRef const name = name_in_c(called->getName());
  return (name == "malloc" && call.arg_size() == 1) || (name == "calloc" && call.arg_size() == 2);
}

bool branches(Instruction const& last) {
  return isa<BranchInst, SwitchInst>(last) && last.getNumSuccessors() > 0;
}

/// Whether two pointers lead to different variables.
bool are_apart(Value const* a, Value const* b) {
  Value const* const first = getUnderlyingObject(a);
  Value const* const second = getUnderlyingObject(b);
  return first != second && isa<AllocaInst, GlobalVariable>(first) &&
         isa<AllocaInst, GlobalVariable>(second);
}

/// The blocks that lie between the end of a block and the first allocations after it.
class arms {
 public:
  explicit arms(BasicBlock& block) : block_{block} {}

  /// The allocations, one on each path, if they are equal and can move to the end of the block.
  std::optional<SmallVector<CallInst*>> find() {
    Instruction const& last = *block_.getTerminator();
    if (!branches(last) || last.getNumSuccessors() < 2) return std::nullopt;
    add_successors(last);
    for (std::size_t i = 0; i < region_.size(); ++i)
      if (region_.size() > max_blocks || region_[i] == &block_ || !visit(*region_[i]))
        return std::nullopt;
    if (calls_.size() < 2 || !has_one_entry()) return std::nullopt;
    for (CallInst* const other : drop_begin(calls_))
      if (!are_equal(*calls_[0], *other)) return std::nullopt;
    for (Use const& argument : calls_[0]->args())  // also what only the first has to move
      if (!are_equal(argument.get(), argument.get(), 0)) return std::nullopt;
    return calls_;
  }

  [[nodiscard]] bool contains(Value const* value) const {
    auto const* const instruction = dyn_cast<Instruction>(value);
    return instruction != nullptr &&
           region_.contains(const_cast<BasicBlock*>(instruction->getParent()));
  }

 private:
  void add_successors(Instruction const& last) {
    for (unsigned i = 0; i < last.getNumSuccessors(); ++i) region_.insert(last.getSuccessor(i));
  }

  /// Looks for the block's first allocation. Returns false if something before it must not follow
  /// the allocation, or if a path ends without one.
  bool visit(BasicBlock& block) {
    for (Instruction& instruction : block) {
      if (instruction.isDebugOrPseudoInst() || instruction.isLifetimeStartOrEnd()) continue;
      if (auto* const call = dyn_cast<CallBase>(&instruction)) {
        if (!is_mergeable(*call)) return false;
        calls_.push_back(cast<CallInst>(call));
        ends_.insert(&block);
        return true;
      }
      if (auto const* const store = dyn_cast<StoreInst>(&instruction); store && store->isSimple()) {
        stores_.push_back(store);
      } else if (auto const* const load = dyn_cast<LoadInst>(&instruction)) {
        if (!load->isSimple()) return false;
      } else if (instruction.mayReadOrWriteMemory()) {
        return false;
      }
    }
    if (!branches(*block.getTerminator())) return false;
    add_successors(*block.getTerminator());
    return true;
  }

  /// Whether each path to an allocation comes from the block, and through no loop and no other
  /// allocation.
  [[nodiscard]] bool has_one_entry() const {
    // Such paths come to blocks of which all blocks before are known to be such.
    SmallPtrSet<BasicBlock*, 16> found;
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (BasicBlock* const block : region_)
        if (!found.contains(block) && all_of(predecessors(block), [&](BasicBlock* before) {
              return before == &block_ || (found.contains(before) && !ends_.contains(before));
            }))
          is_changed = found.insert(block).second;
    }
    return found.size() == region_.size();
  }

  [[nodiscard]] bool are_equal(CallInst const& a, CallInst const& b) const {
    if (a.getCalledFunction() != b.getCalledFunction() || a.getAttributes() != b.getAttributes())
      return false;
    for (unsigned i = 0; i < a.arg_size(); ++i)
      if (!are_equal(a.getArgOperand(i), b.getArgOperand(i), 0)) return false;
    return true;
  }

  /// Whether the values are the same at the end of the block, where they can be computed.
  [[nodiscard]] bool are_equal(Value const* a, Value const* b, unsigned depth) const {
    if (!contains(a)) return a == b;
    auto const* const first = cast<Instruction>(a);
    auto const* const second = dyn_cast<Instruction>(b);
    if (second == nullptr || !contains(b) || depth > max_depth) return false;
    if (!isa<BinaryOperator, CastInst, CmpInst, SelectInst, GetElementPtrInst, LoadInst>(first))
      return false;
    if (!first->isSameOperationAs(second) || !first->hasSameSubclassOptionalData(second))
      return false;
    for (unsigned i = 0; i < first->getNumOperands(); ++i)
      if (!are_equal(first->getOperand(i), second->getOperand(i), depth + 1)) return false;
    auto const* const load = dyn_cast<LoadInst>(first);
    return load == nullptr || all_of(stores_, [&](StoreInst const* store) {
             return are_apart(store->getPointerOperand(), load->getPointerOperand());
           });
  }

  BasicBlock& block_;
  SmallSetVector<BasicBlock*, 16> region_;
  SmallPtrSet<BasicBlock*, 8> ends_;  // that have an allocation
  SmallVector<CallInst*> calls_;
  SmallVector<StoreInst const*> stores_;  // before the allocations
};

/// Computes a value of the arms at the end of the block.
Value* computed_before(Value* value, arms const& region, Instruction& last,
                       DenseMap<Value*, Value*>& known) {
  if (!region.contains(value)) return value;
  if (auto const found = known.find(value); found != known.end()) return found->second;
  Instruction* const copy = cast<Instruction>(value)->clone();
  for (Use& operand : copy->operands())
    operand.set(computed_before(operand.get(), region, last, known));
  copy->dropUnknownNonDebugMetadata();
  copy->setDebugLoc(last.getDebugLoc());
  copy->insertBefore(last.getIterator());
  known[value] = copy;
  return copy;
}

void merge(arms const& region, ArrayRef<CallInst*> calls, Instruction& last) {
  DenseMap<Value*, Value*> known;
  auto* const merged = cast<CallInst>(calls[0]->clone());
  for (Use& argument : merged->args())
    argument.set(computed_before(argument.get(), region, last, known));
  SmallVector<Metadata*> places;
  auto const add_number = [&](unsigned number) {
    auto* const word = Type::getInt32Ty(last.getContext());
    places.push_back(ConstantAsMetadata::get(ConstantInt::get(word, number)));
  };
  for (CallInst* const call : calls) {
    auto before = merged_places(*call);
    if (before.empty() && call->getDebugLoc()) before.push_back(call->getDebugLoc().get());
    for (DILocation const* const each : before) {
      places.push_back(each->getScope());
      add_number(each->getLine());
      add_number(each->getColumn());
    }
  }
  merged->setMetadata(merged_kind, MDTuple::get(last.getContext(), places));
  if (last.getDebugLoc()) merged->setDebugLoc(last.getDebugLoc());
  merged->insertBefore(last.getIterator());
  for (CallInst* const call : calls) {
    call->replaceAllUsesWith(merged);
    call->eraseFromParent();
  }
}

/// The contexts of calls, by class: a site's path without its last number, which is the call's.
class known_sites {
 public:
  explicit known_sites(std::vector<allocation_site> const& sites) {
    for (allocation_site const& site : sites) {
      context const way{site.path.begin(), site.path.end() - 1};
      auto& contexts = calls_[site.path.back()];
      (site.kind == allocation_class::none ? contexts.varying : contexts.collective).insert(way);
    }
  }

  /// Whether ranks call some of these in other numbers, so that one call may have a better class. A
  /// call after a loop can be collective while the one in the loop is not: these stay apart.
  [[nodiscard]] bool pays(ArrayRef<CallInst*> calls) const {
    auto const& first = contexts_of(*calls[0]);
    return !first.varying.empty() && all_of(calls, [&](CallInst const* call) {
      return contexts_of(*call).collective == first.collective;
    });
  }

 private:
  using context = std::vector<std::uint32_t>;
  struct call_contexts {
    std::set<context> varying;
    std::set<context> collective;
  };

  [[nodiscard]] call_contexts const& contexts_of(CallInst const& call) const {
    static call_contexts const none;
    auto const path = path_of(call);
    auto const found = path.empty() ? calls_.end() : calls_.find(path.back());
    return found == calls_.end() ? none : found->second;
  }

  std::map<std::uint32_t, call_contexts> calls_;  // by number
};

bool has_equal_arms(Module& program) {
  for (Function& function : program)
    for (BasicBlock& block : function)
      if (arms{block}.find()) return true;
  return false;
}

}  // namespace

bool merge_arms(Module& program) {
  if (!has_equal_arms(program)) return false;
  known_sites const sites{classify_allocations(program, false)};
  bool is_changed = false;
  for (Function& function : program) {
    if (function.isDeclaration()) continue;
    // From the start: an outer branch takes the allocations of inner ones, too.
    for (BasicBlock* const block : ReversePostOrderTraversal<Function*>{&function}) {
      for (;;) {  // arms can begin with several allocations
        arms region{*block};
        auto const calls = region.find();
        if (!calls || !sites.pays(*calls)) break;
        merge(region, *calls, *block->getTerminator());
        is_changed = true;
      }
    }
  }
  if (is_changed) number_calls(program);
  return is_changed;
}

std::vector<DILocation const*> merged_places(CallBase const& call) {
  std::vector<DILocation const*> places;
  MDNode const* const node = call.getMetadata(merged_kind);
  if (node == nullptr) return places;
  auto const number = [&](unsigned i) {
    return static_cast<unsigned>(
        mdconst::extract<ConstantInt>(node->getOperand(i))->getZExtValue());
  };
  for (unsigned i = 0; i + 2 < node->getNumOperands(); i += 3)
    places.push_back(DILocation::get(call.getContext(), number(i + 1), number(i + 2),
                                     cast<DIScope>(node->getOperand(i).get())));
  return places;
}

}  // namespace quarry::compiler
