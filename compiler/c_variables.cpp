// SPDX-License-Identifier: Apache-2.0
#include "c_variables.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/ReplaceConstant.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr char const* replaced[] = {"stdin",  "stdout", "stderr",  "optarg",   "optind",
                                    "opterr", "optopt", "environ", "__environ"};

void replace_variable(Module& module, GlobalVariable& variable) {
  FunctionCallee const address_of = module.getOrInsertFunction(
      ("quarry_c_address_of_" + variable.getName()).str(),
      FunctionType::get(PointerType::get(module.getContext(), 0), false));
  SmallVector<Constant*> constants{&variable};
  convertUsersOfConstantsToInstructions(constants);
  // One call for each function, in its first block: the address never changes for a rank.
  MapVector<Function*, Value*> addresses;
  for (Use& use : make_early_inc_range(variable.uses())) {
    auto* const user = dyn_cast<Instruction>(use.getUser());
    if (user == nullptr) continue;  // an initial value; connect_to_runtime reports the variable
    Function* const function = user->getFunction();
    Value*& address = addresses[function];
    if (address == nullptr) {
      IRBuilder<> builder{&*function->getEntryBlock().getFirstNonPHIOrDbgOrAlloca()};
      if (DISubprogram* const scope = function->getSubprogram())
        builder.SetCurrentDebugLocation(
            DILocation::get(module.getContext(), scope->getLine(), 0, scope));
      address = builder.CreateCall(address_of, {}, variable.getName());
    }
    use.set(address);
  }
  if (variable.use_empty()) variable.eraseFromParent();
}

}  // namespace

void replace_c_variables(Module& module) {
  for (char const* name : replaced) {
    GlobalVariable* const variable = module.getNamedGlobal(name);
    if (variable != nullptr && variable->isDeclaration()) replace_variable(module, *variable);
  }
}

}  // namespace quarry::compiler
