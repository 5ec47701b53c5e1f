// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include "failure.hpp"
#include "unsupported.hpp"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/raw_ostream.h>

#include <map>

namespace quarry::compiler {

using namespace llvm;

namespace {

struct symbols {
  std::set<std::string> strong;   // definitions of which a program has one
  std::set<std::string> defined;  // these, and weak and common definitions
  std::set<std::string> wanted;
};

symbols symbols_of(compiled const& part) {
  LLVMContext context;
  auto const module = parse_module(part.cpu, part.name, context);
  symbols result;
  for (GlobalValue const& value : module->global_values()) {
    if (value.hasLocalLinkage() || value.getName().starts_with("llvm.")) continue;
    std::string const name = value.getName().str();
    if (value.isDeclaration()) {
      if (!value.hasExternalWeakLinkage()) result.wanted.insert(name);
    } else if (!value.hasAvailableExternallyLinkage()) {
      result.defined.insert(name);
      if (value.hasExternalLinkage()) result.strong.insert(name);
    }
  }
  return result;
}

/// Keeps the linker's messages as text.
struct message_keeper : DiagnosticHandler {
  explicit message_keeper(std::string& target) : text{target} {}
  bool handleDiagnostics(DiagnosticInfo const& information) override {
    if (information.getSeverity() != DS_Error) return true;
    raw_string_ostream stream{text};
    DiagnosticPrinterRawOStream printer{stream};
    information.print(printer);
    return true;
  }
  std::string& text;
};

}  // namespace

void program::join(std::vector<compiled> const& parts) {
  std::string problem;
  context_.setDiagnosticHandler(std::make_unique<message_keeper>(problem));
  for (compiled const& part : parts) {
    bool const is_gpu = machine_ == target::gpu;
    if (is_gpu && part.gpu.empty())
      throw failure{part.name + " was compiled with --cpu-only; link with --cpu-only, too"};
    auto module = parse_module(is_gpu ? part.gpu : part.cpu, part.name, context_);
    if (whole_ == nullptr) {
      whole_ = std::move(module);
    } else if (Linker::linkModules(*whole_, std::move(module))) {
      throw failure{part.name + ": error: " + problem};
    }
  }
  if (whole_ == nullptr) throw failure{"no file has code"};
}

void add_members(std::vector<compiled>& parts, std::vector<library>& libraries) {
  std::set<std::string> defined;
  std::set<std::string> wanted;
  auto const add = [&](symbols const& names) {
    defined.insert(names.defined.begin(), names.defined.end());
    wanted.insert(names.wanted.begin(), names.wanted.end());
  };
  if (libraries.empty()) return;
  for (compiled const& part : parts) add(symbols_of(part));
  if (!defined.contains("main")) wanted.insert("main");
  struct candidate {
    compiled* member;
    symbols names;
  };
  std::vector<candidate> candidates;
  for (library& each : libraries)
    for (compiled& member : each.members) candidates.push_back({&member, symbols_of(member)});
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (candidate& each : candidates) {
      if (each.member == nullptr) continue;
      bool is_needed = false;
      for (std::string const& name : each.names.defined)
        is_needed = is_needed || (wanted.contains(name) && !defined.contains(name));
      if (!is_needed) continue;
      add(each.names);
      parts.push_back(std::move(*each.member));
      each.member = nullptr;
      is_changed = true;
    }
  }
}

void check_definitions(std::vector<compiled> const& parts) {
  if (parts.size() == 1) return;  // Clang has checked it
  std::map<std::string, std::string> owners;
  std::string problems;
  for (compiled const& part : parts) {
    for (std::string const& name : symbols_of(part).strong) {
      auto const [owner, is_new] = owners.try_emplace(name, part.name);
      if (!is_new)
        problems += part.name + ": error: " + name + " is defined in " + owner->second + ", too\n";
    }
  }
  if (!problems.empty()) throw failure{problems + "the program has several definitions of a name"};
}

}  // namespace quarry::compiler
