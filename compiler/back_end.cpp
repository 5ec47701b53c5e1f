// SPDX-License-Identifier: Apache-2.0
#include "back_end.hpp"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <set>

namespace quarry::compiler {

using namespace llvm;

namespace {

struct change_pass : PassInfoMixin<change_pass> {
  std::function<void(Module&)> change;

  PreservedAnalyses run(Module& module, ModuleAnalysisManager&) {
    change(module);
    return PreservedAnalyses::none();
  }
};

/// The name of the function in the CUDA toolkit's library. That library has none with results of
/// type long, but long has the size of long long.
std::string name_in_toolkit(StringRef name) {
  bool const is_long = name.starts_with("lround") || name.starts_with("lrint");
  return (is_long ? "__nv_l" : "__nv_") + name.str();
}

}  // namespace

void initialise_back_ends() {
  InitializeAllTargetInfos();
  InitializeAllTargets();
  InitializeAllTargetMCs();
  InitializeAllAsmPrinters();
  InitializeAllAsmParsers();
}

std::unique_ptr<TargetMachine> machine_for(target machine, std::string const& gpu, unsigned level) {
  std::string const triple = machine == target::gpu ? "nvptx64-nvidia-cuda" : "x86_64-pc-linux-gnu";
  std::string error;
  Target const* const found = TargetRegistry::lookupTarget(triple, error);
  if (found == nullptr) report_fatal_error(Twine(error));
  bool const is_gpu = machine == target::gpu;
  // LLVM builds tables of relative addresses for the small code model, which PTX cannot express.
  auto const model = is_gpu ? CodeModel::Large : CodeModel::Small;
  // ptxas optimises the GPU's code at every level.
  auto const effort = !is_gpu && level == 0 ? CodeGenOptLevel::None : CodeGenOptLevel::Default;
  return std::unique_ptr<TargetMachine>{found->createTargetMachine(
      triple, is_gpu ? gpu : "x86-64", is_gpu ? "+ptx83" : "", {}, Reloc::PIC_, model, effort)};
}

void optimise(Module& module, TargetMachine& machine, unsigned level,
              std::function<void(Module&)> const& after_inlining) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder{&machine};
  if (level > 0 && after_inlining)
    builder.registerOptimizerEarlyEPCallback([&](ModulePassManager& passes, OptimizationLevel) {
      passes.addPass(change_pass{{}, after_inlining});
    });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  OptimizationLevel const wanted = level == 0   ? OptimizationLevel::O0
                                   : level == 1 ? OptimizationLevel::O1
                                   : level == 2 ? OptimizationLevel::O2
                                                : OptimizationLevel::O3;
  auto passes = level == 0 ? builder.buildO0DefaultPipeline(wanted)
                           : builder.buildPerModuleDefaultPipeline(wanted);
  passes.run(module, modules);
}

std::string link_functions(Module& module, std::string const& library) {
  SMDiagnostic problem;
  auto functions = parseIRFile(library, problem, module.getContext());
  if (functions == nullptr) return library + ": " + problem.getMessage().str();
  functions->setTargetTriple(module.getTargetTriple());
  functions->setDataLayout(module.getDataLayout());
  if (Linker::linkModules(module, std::move(functions), Linker::LinkOnlyNeeded))
    return library + ": the functions do not link";
  return {};
}

std::string link_math(Module& module, std::string const& library) {
  std::set<std::string> wanted;
  SMDiagnostic problem;
  auto math = parseIRFile(library, problem, module.getContext());
  if (math == nullptr) return library + ": " + problem.getMessage().str();
  math->setTargetTriple(module.getTargetTriple());
  math->setDataLayout(module.getDataLayout());
  SmallVector<Function*> served;
  for (Function& function : module) {
    if (!function.isDeclaration() || function.use_empty()) continue;
    if (math->getFunction(name_in_toolkit(function.getName())) != nullptr)
      served.push_back(&function);
  }
  if (served.empty()) return {};
  for (Function* function : served) {
    FunctionCallee callee = module.getOrInsertFunction(name_in_toolkit(function->getName()),
                                                       function->getFunctionType());
    function->replaceAllUsesWith(callee.getCallee());
  }
  for (Function& function : *math)
    if (!function.isDeclaration()) wanted.insert(function.getName().str());
  if (Linker::linkModules(module, std::move(math), Linker::LinkOnlyNeeded))
    return library + ": the CUDA toolkit's mathematical functions do not link";
  for (std::string const& name : wanted)
    if (Function* const function = module.getFunction(name);
        function != nullptr && !function->isDeclaration())
      function->setLinkage(GlobalValue::InternalLinkage);
  return {};
}

std::string write_code(Module& module, TargetMachine& machine, target kind,
                       std::string const& path) {
  std::string message;
  raw_string_ostream text{message};
  if (verifyModule(module, &text)) return "internal error: " + message;
  std::error_code error;
  raw_fd_ostream file{path, error, sys::fs::OF_None};
  if (error) return path + ": " + error.message();
  legacy::PassManager passes;
  auto const type =
      kind == target::gpu ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, file, nullptr, type)) return "LLVM cannot write " + path;
  passes.run(module);
  return {};
}

}  // namespace quarry::compiler
