// SPDX-License-Identifier: Apache-2.0
#include "model_program.hpp"

#include "call_models.hpp"
#include "job_ends.hpp"
#include "library_calls.hpp"
#include "model_values.hpp"

#include <llvm/ADT/SCCIterator.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <map>
#include <set>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr char const* path_kind = "quarry.path";

/// Limits of the copy, in instructions: of one function that is inserted, and of all functions.
constexpr unsigned max_inserted = 20'000;
constexpr unsigned max_total = 200'000;
/// Global variables of more bytes than this stay in memory.
constexpr std::uint64_t max_local_global = 4096;

void set_path(CallBase& call, std::vector<std::uint32_t> const& path) {
  LLVMContext& context = call.getContext();
  SmallVector<Metadata*> numbers;
  for (std::uint32_t const each : path)
    numbers.push_back(ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(context), each)));
  call.setMetadata(path_kind, MDTuple::get(context, numbers));
}

/// Promotes local variables to values.
class promoter {
 public:
  promoter() {
    PassBuilder builder;
    builder.registerModuleAnalyses(modules_);
    builder.registerCGSCCAnalyses(components_);
    builder.registerFunctionAnalyses(functions_);
    builder.registerLoopAnalyses(loops_);
    builder.crossRegisterProxies(loops_, functions_, components_, modules_);
  }
  void run(Function& function) {
    SROAPass{SROAOptions::PreserveCFG}.run(function, functions_);
    functions_.clear(function, function.getName());
  }
  void run(Module& module) {
    for (Function& function : module)
      if (!function.isDeclaration()) run(function);
  }

 private:
  LoopAnalysisManager loops_;
  FunctionAnalysisManager functions_;
  CGSCCAnalysisManager components_;
  ModuleAnalysisManager modules_;
};

/// The functions that the program has, callees first. Recursive ones have `true`.
std::vector<std::pair<Function*, bool>> callees_first(Module& module) {
  CallGraph graph{module};
  std::vector<std::pair<Function*, bool>> order;
  for (auto component = scc_begin(&graph); !component.isAtEnd(); ++component) {
    bool const is_recursive = component.hasCycle();
    for (CallGraphNode* const node : *component)
      if (Function* const function = node->getFunction(); function && !function->isDeclaration())
        order.emplace_back(function, is_recursive);
  }
  return order;
}

/// Inserts the bodies of called functions into `caller`.
void insert_callees(Function& caller, std::set<Function*> const& apart, unsigned& total) {
  SmallVector<CallBase*> calls;
  for (Instruction& instruction : instructions(caller))
    if (auto* const call = dyn_cast<CallBase>(&instruction)) calls.push_back(call);
  for (CallBase* const call : calls) {
    Function* const called = call->getCalledFunction();
    if (called == nullptr || called->isDeclaration() || apart.contains(called)) continue;
    if (called->isVarArg()) continue;  // its body would take the caller's variable arguments
    unsigned const size = called->getInstructionCount();
    if (size > max_inserted || total + size > max_total) continue;
    auto const outer = path_of(*call);
    InlineFunctionInfo inserted;
    if (!InlineFunction(*call, inserted).isSuccess()) continue;
    total += size;
    for (CallBase* const inner : inserted.InlinedCallSites) {
      auto path = outer;
      auto const own = path_of(*inner);
      path.insert(path.end(), own.begin(), own.end());
      if (!own.empty()) set_path(*inner, path);
    }
  }
}

/// Deletes functions that nothing refers to.
void drop_unused(std::vector<std::pair<Function*, bool>>& order) {
  for (auto each = order.rbegin(); each != order.rend(); ++each) {
    Function* const function = each->first;
    function->removeDeadConstantUsers();
    if (function->getName() == root_name || !function->use_empty()) continue;
    function->eraseFromParent();
    each->first = nullptr;
  }
}

/// Makes local variables of the global variables that the root alone uses.
void localise_globals(Module& module) {
  Function* const root = module.getFunction(root_name);
  SmallVector<GlobalVariable*> candidates;
  for (GlobalVariable& variable : module.globals()) {
    bool const fits =
        variable.hasInitializer() && !variable.isConstant() &&
        module.getDataLayout().getTypeAllocSize(variable.getValueType()) <= max_local_global;
    if (fits && !variable.getName().starts_with("llvm.")) candidates.push_back(&variable);
  }
  for (GlobalVariable* const variable : candidates) {
    convertUsersOfConstantsToInstructions({variable});
    variable->removeDeadConstantUsers();
    bool is_local = !variable->use_empty();
    for (User const* const user : variable->users()) {
      auto const* const instruction = dyn_cast<Instruction>(user);
      is_local = is_local && instruction != nullptr && instruction->getFunction() == root;
    }
    if (!is_local) continue;
    IRBuilder<> builder{&*root->getEntryBlock().begin()};
    AllocaInst* const local = builder.CreateAlloca(variable->getValueType());
    local->setName(variable->getName());
    builder.CreateStore(variable->getInitializer(), local);
    variable->replaceAllUsesWith(local);
  }
}

bool has_address_as_number(Constant const& constant) {
  auto const* const expression = dyn_cast<ConstantExpr>(&constant);
  return expression != nullptr && (expression->getOpcode() == Instruction::PtrToInt ||
                                   llvm::any_of(expression->operands(), [](Use const& each) {
                                     return has_address_as_number(*cast<Constant>(each.get()));
                                   }));
}

/// Makes instructions of constants that have the address of a variable as a number: it varies.
void expand_addresses(Function& function) {
  std::map<ConstantExpr*, Instruction*> made;
  SmallVector<Instruction*> open;
  for (Instruction& instruction : instructions(function)) open.push_back(&instruction);
  while (!open.empty()) {
    for (Use& operand : open.pop_back_val()->operands()) {
      auto* const constant = dyn_cast<ConstantExpr>(operand.get());
      if (constant == nullptr || !has_address_as_number(*constant)) continue;
      auto const [position, is_new] = made.try_emplace(constant, nullptr);
      if (is_new) {
        position->second = constant->getAsInstruction();
        position->second->insertBefore(function.getEntryBlock().getFirstInsertionPt());
        open.push_back(position->second);
      }
      operand.set(position->second);
    }
  }
}

}  // namespace

void number_calls(Module& program) {
  std::uint32_t next = 0;
  for (Function& function : program)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<CallBase>(&instruction);
          call != nullptr && !isa<IntrinsicInst>(call))
        set_path(*call, {next++});
}

std::vector<std::uint32_t> path_of(CallBase const& call) {
  std::vector<std::uint32_t> path;
  MDNode const* const node = call.getMetadata(path_kind);
  if (node == nullptr) return path;
  for (MDOperand const& operand : node->operands())
    path.push_back(
        static_cast<std::uint32_t>(mdconst::extract<ConstantInt>(operand.get())->getZExtValue()));
  return path;
}

std::unique_ptr<Module> make_model(Module const& program) {
  auto model = CloneModule(program);
  expand_library_calls(*model);
  auto const leaving = leaving_functions(*model);
  promoter promote;
  auto order = callees_first(*model);
  std::set<Function*> apart;  // functions that are not inserted
  unsigned total = 0;
  for (auto const& [function, is_recursive] : order) {
    if (is_recursive || function->callsFunctionThatReturnsTwice()) apart.insert(function);
    total += function->getInstructionCount();
  }
  for (auto const& [function, is_recursive] : order) {
    end_at_exits(*function);
    removeUnreachableBlocks(*function);
    promote.run(*function);
    insert_callees(*function, apart, total);
    add_hidden_exits(*function, leaving);
    remove_ending_paths(*function);
    if (always_ends_job(*function)) {
      SmallVector<WeakTrackingVH> calls;
      for (User* const user : function->users())
        if (auto* const call = dyn_cast<CallInst>(user);
            call && call->getCalledOperand() == function)
          calls.push_back(call);
      for (WeakTrackingVH const& each : calls)
        if (auto* const call = dyn_cast_or_null<CallInst>(static_cast<Value*>(each)))
          end_after(*call);
    }
  }
  drop_unused(order);
  localise_globals(*model);
  promote.run(*model);
  for (int round = 0; round < 2; ++round) {
    make_values(*model);
    promote.run(*model);
  }
  for (Function& function : *model)
    if (!function.isDeclaration()) expand_addresses(function);
  return model;
}

}  // namespace quarry::compiler
