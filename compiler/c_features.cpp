// SPDX-License-Identifier: Apache-2.0
#include "c_features.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/LowerAtomic.h>

#include <algorithm>

namespace quarry::compiler {
namespace {

using namespace llvm;

void lower_thread_locals(Module& module) {
  SmallVector<IntrinsicInst*> addresses;
  for (Function& function : module)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<IntrinsicInst>(&instruction);
          call != nullptr && call->getIntrinsicID() == Intrinsic::threadlocal_address)
        addresses.push_back(call);
  for (IntrinsicInst* address : addresses) {
    address->replaceAllUsesWith(address->getArgOperand(0));
    address->eraseFromParent();
  }
  for (GlobalVariable& variable : module.globals()) variable.setThreadLocal(false);
}

/// A rank's memory has one thread. PTX has no atomic operation on a stack, and no load and store
/// that are sequentially consistent.
void lower_atomics(Function& function) {
  for (Instruction& instruction : make_early_inc_range(instructions(function))) {
    if (auto* const load = dyn_cast<LoadInst>(&instruction)) {
      load->setAtomic(AtomicOrdering::NotAtomic);
    } else if (auto* const store = dyn_cast<StoreInst>(&instruction)) {
      store->setAtomic(AtomicOrdering::NotAtomic);
    } else if (auto* const update = dyn_cast<AtomicRMWInst>(&instruction)) {
      lowerAtomicRMWInst(update);
    } else if (auto* const exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
      lowerAtomicCmpXchgInst(exchange);
    } else if (auto* const fence = dyn_cast<FenceInst>(&instruction)) {
      fence->eraseFromParent();
    }
  }
}

void resolve_aliases(Module& module) {
  for (GlobalAlias& alias : make_early_inc_range(module.aliases())) {
    Constant* const named = alias.getAliasee();
    alias.replaceAllUsesWith(named);
    alias.eraseFromParent();
  }
}

void resolve_weak_symbols(Module& module, std::set<std::string> const& runtime_functions) {
  auto const resolve = [&](GlobalValue& value) {
    std::string const name = value.getName().str();
    bool const is_known =
        runtime_functions.contains(name) || runtime_functions.contains("quarry_c_" + name);
    if (value.hasExternalWeakLinkage() && !is_known)
      value.replaceAllUsesWith(Constant::getNullValue(value.getType()));
  };
  for (Function& function : module) resolve(function);
  for (GlobalVariable& variable : module.globals()) resolve(variable);
}

/// The labels of a function whose address the program takes get the numbers 1, 2, and so on.
void lower_indirect_jumps(Function& function) {
  SmallVector<IndirectBrInst*> jumps;
  SmallVector<BasicBlock*> labels;
  for (BasicBlock& block : function) {
    if (auto* const jump = dyn_cast<IndirectBrInst>(block.getTerminator())) jumps.push_back(jump);
    if (block.hasAddressTaken()) labels.push_back(&block);
  }
  Type* const word = Type::getInt64Ty(function.getContext());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    auto* const address = BlockAddress::get(&function, labels[i]);
    Constant* const number = ConstantInt::get(word, i + 1);
    address->replaceAllUsesWith(ConstantExpr::getIntToPtr(number, address->getType()));
    address->destroyConstant();
  }
  for (IndirectBrInst* jump : jumps) {
    IRBuilder<> builder{jump};
    auto* const impossible = BasicBlock::Create(function.getContext(), "", &function);
    IRBuilder<>{impossible}.CreateUnreachable();
    Value* const number = builder.CreatePtrToInt(jump->getAddress(), word);
    SwitchInst* const table =
        builder.CreateSwitch(number, impossible, static_cast<unsigned>(labels.size()));
    SmallPtrSet<BasicBlock*, 8> targets;
    for (unsigned i = 0; i < jump->getNumDestinations(); ++i) {
      BasicBlock* const label = jump->getDestination(i);
      auto const position = std::ranges::find(labels, label);
      if (position == labels.end() || !targets.insert(label).second) {
        label->removePredecessor(jump->getParent());
        continue;
      }
      auto const place = static_cast<std::uint64_t>(position - labels.begin()) + 1;
      table->addCase(ConstantInt::get(Type::getInt64Ty(function.getContext()), place), label);
    }
    jump->eraseFromParent();
  }
}

/// The functions of `llvm.global_ctors` or `llvm.global_dtors` by ascending priority. Erases the
/// list.
SmallVector<Function*> take_functions(Module& module, StringRef list) {
  GlobalVariable* const variable = module.getNamedGlobal(list);
  SmallVector<Function*> functions;
  if (variable == nullptr) return functions;
  std::vector<std::pair<std::uint64_t, Function*>> entries;
  if (auto const* array = dyn_cast<ConstantArray>(variable->getInitializer())) {
    for (Use const& element : array->operands()) {
      auto const* entry = cast<ConstantStruct>(element.get());
      auto* const function = dyn_cast<Function>(entry->getOperand(1)->stripPointerCasts());
      if (function != nullptr)
        entries.emplace_back(cast<ConstantInt>(entry->getOperand(0))->getZExtValue(), function);
    }
  }
  std::ranges::stable_sort(entries, {}, &std::pair<std::uint64_t, Function*>::first);
  for (auto const& entry : entries) functions.push_back(entry.second);
  variable->eraseFromParent();
  return functions;
}

void call_constructors(Module& module) {
  auto const first = take_functions(module, "llvm.global_ctors");
  auto const last = take_functions(module, "llvm.global_dtors");
  Function* const main = module.getFunction("quarry_mpi_main");
  if (main == nullptr) return;
  IRBuilder<> builder{&*main->getEntryBlock().begin()};
  for (Function* function : first) builder.CreateCall(function);
  builder.SetInsertPoint(main->getEntryBlock().getTerminator());
  for (Function* function : last) builder.CreateCall(function);
}

}  // namespace

void lower_c_features(Module& module, std::set<std::string> const& runtime_functions) {
  for (char const* list : {"llvm.used", "llvm.compiler.used"})
    if (GlobalVariable* const variable = module.getNamedGlobal(list)) variable->eraseFromParent();
  resolve_aliases(module);
  lower_thread_locals(module);
  resolve_weak_symbols(module, runtime_functions);
  for (Function& function : module) {
    lower_atomics(function);
    lower_indirect_jumps(function);
  }
  call_constructors(module);
}

}  // namespace quarry::compiler
