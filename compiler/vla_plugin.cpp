// SPDX-License-Identifier: Apache-2.0
// A plugin for Clang that accepts variable-length arrays and _Thread_local in code for NVPTX.
//
// Clang refuses both there because LLVM cannot generate code for them. quarry-mpicc replaces both
// before code generation (frame_memory.hpp, privatize.hpp). Rejected: to compile for another target
// and change it later, since calling conventions, va_list and long double differ between targets.
#include <clang/AST/ASTConsumer.h>
#include <clang/Basic/TargetInfo.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

namespace {

/// Derived classes can name these members, and a pointer to a member works on any object.
struct target_settings : clang::TargetInfo {
  static void allow_all(clang::TargetInfo& target) {
    target.*(&target_settings::VLASupported) = true;
    target.*(&target_settings::TLSSupported) = true;
  }
};

class allow_c_features : public clang::PluginASTAction {
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef /*file*/) override {
    target_settings::allow_all(compiler.getTarget());
    return std::make_unique<clang::ASTConsumer>();
  }
  bool ParseArgs(clang::CompilerInstance const& /*compiler*/,
                 std::vector<std::string> const& /*words*/) override {
    return true;
  }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

clang::FrontendPluginRegistry::Add<allow_c_features> const registration{
    "quarry-c-features", "variable-length arrays and thread-local variables for NVPTX"};

}  // namespace
