// SPDX-License-Identifier: Apache-2.0
#include "unsupported.hpp"

#include "failure.hpp"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include <filesystem>

namespace quarry::compiler {

using namespace llvm;

namespace {

struct family {
  char const* reason;
  std::set<StringRef> names;
};

family const families[] = {
    {"ranks have no signals",
     {"signal", "sigaction", "raise", "kill", "alarm", "setitimer", "sigprocmask", "sigemptyset",
      "sigaddset", "sigfillset", "sigdelset", "sigwait", "sigsuspend", "pause", "ualarm"}},
    {"ranks have no sockets",
     {"socket", "bind", "listen", "accept", "connect", "send", "recv", "sendto", "recvfrom",
      "shutdown", "getsockname", "getpeername", "setsockopt", "getsockopt", "getaddrinfo",
      "gethostbyname", "select", "poll"}},
    {"ranks cannot start processes",
     {"fork", "vfork", "execl", "execlp", "execle", "execv", "execvp", "execve", "system", "popen",
      "pclose", "wait", "waitpid", "pipe", "posix_spawn", "daemon"}},
    {"ranks cannot load libraries", {"dlopen", "dlsym", "dlclose", "dlerror"}},
    {"ranks cannot map memory",
     {"mmap", "munmap", "mprotect", "shm_open", "shmget", "shmat", "shmdt", "sbrk", "brk"}}};

constexpr char const* thread_prefixes[] = {"pthread_", "omp_", "thrd_", "mtx_", "cnd_", "sem_"};

std::pair<std::string, unsigned> split(std::string const& place) {
  auto const colon = place.rfind(':');
  return {place.substr(0, colon), static_cast<unsigned>(std::stoul(place.substr(colon + 1)))};
}

/// The file as a path from the current folder, if it lies there, else with all folders. Debug
/// information splits a path at the folder that it shares with the folder of the compilation.
std::string joined_path(StringRef folder, StringRef file) {
  namespace fs = std::filesystem;
  fs::path const whole = fs::path{folder.str()} / file.str();
  std::string const here = fs::current_path().string() + "/";
  std::string const path = whole.lexically_normal().string();
  return path.starts_with(here) ? path.substr(here.size()) : path;
}

}  // namespace

std::string place_of(Instruction const& instruction) {
  return place_of(instruction.getDebugLoc().get());
}

std::string place_of(DILocation const* location) {
  if (location == nullptr) return {};
  while (location->getLine() == 0 && location->getInlinedAt() != nullptr)
    location = location->getInlinedAt();
  return joined_path(location->getDirectory(), location->getFilename()) + ":" +
         std::to_string(location->getLine());
}

void add_place(unsupported_list& list, std::string const& name, std::string const& reason,
               std::string const& place) {
  unsupported& entry = list[name];
  entry.reason = reason;
  if (!place.empty()) entry.places.insert(split(place));
}

void add_uses(unsupported_list& list, std::string const& name, std::string const& reason,
              Value const& value) {
  add_place(list, name, reason, "");
  for (User const* user : value.users()) {
    if (auto const* instruction = dyn_cast<Instruction>(user)) {
      add_place(list, name, reason, place_of(*instruction));
    } else if (auto const* variable = dyn_cast<GlobalVariable>(user)) {
      SmallVector<DIGlobalVariableExpression*> descriptions;
      variable->getDebugInfo(descriptions);
      for (auto const* description : descriptions)
        add_place(list, name, reason,
                  joined_path(description->getVariable()->getDirectory(),
                              description->getVariable()->getFilename()) +
                      ":" + std::to_string(description->getVariable()->getLine()));
    } else if (isa<Constant>(user) && !isa<GlobalValue>(user)) {
      add_uses(list, name, reason, *user);
    }
  }
}

void find_inline_assembly(Module const& module, unsupported_list& list) {
  std::string const name = "inline assembly";
  std::string const reason = "a GPU has other instructions";
  if (!module.getModuleInlineAsm().empty())
    add_place(list, name, reason, module.getSourceFileName() + ":1");
  for (Function const& function : module) {
    for (Instruction const& instruction : instructions(function)) {
      auto const* call = dyn_cast<CallBase>(&instruction);
      auto const* text = call == nullptr ? nullptr : dyn_cast<InlineAsm>(call->getCalledOperand());
      if (text != nullptr && !text->getAsmString().empty())
        add_place(list, name, reason, place_of(instruction));
    }
  }
}

void find_undeclared_malloc(Module const& module, unsupported_list& list) {
  Function const* const declared = module.getFunction("malloc");
  if (declared == nullptr || !declared->isDeclaration()) return;
  for (User const* const user : declared->users())
    if (auto const* const call = dyn_cast<CallBase>(user);
        call != nullptr && call->getCalledOperand() == declared && call->getType()->isIntegerTy(32))
      add_place(list, "malloc without a declaration",
                "its result would be an int; include <stdlib.h>", place_of(*call));
}

std::string reason_for(std::string const& name) {
  for (family const& each : families)
    if (each.names.contains(name)) return each.reason;
  for (char const* prefix : thread_prefixes)
    if (name.starts_with(prefix)) return "ranks cannot start threads";
  if (name.starts_with("MPI_") || name.starts_with("PMPI_"))
    return "Quarry does not provide this function of MPI";
  return "neither the program nor Quarry's C library defines it";
}

std::string text_of(unsupported_list const& list) {
  std::string text;
  for (auto const& [name, entry] : list) {
    std::string const problem = ": error: " + name + " is not supported: " + entry.reason + '\n';
    if (entry.places.empty()) {
      text += "quarry-mpicc" + problem;
      continue;
    }
    auto const& [first_file, first_line] = *entry.places.begin();
    std::string const first = first_file + ':' + std::to_string(first_line);
    text += first + problem;
    if (entry.places.size() == 1) continue;
    text += first + ": note: all places:";
    std::string const* file = nullptr;
    for (auto const& place : entry.places) {
      bool const is_new_file = file == nullptr || *file != place.first;
      text += is_new_file ? ' ' + place.first + ':' : ",";
      text += std::to_string(place.second);
      file = &place.first;
    }
    text += '\n';
  }
  return text;
}

std::unique_ptr<Module> parse_module(std::string const& bitcode, std::string const& name,
                                     LLVMContext& context) {
  auto module = parseBitcodeFile(MemoryBufferRef{bitcode, name}, context);
  if (!module) throw failure{name + ": " + toString(module.takeError())};
  return std::move(*module);
}

}  // namespace quarry::compiler
