// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/InstrTypes.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// The program's functions after optimisation: others are part of their callers.
std::set<std::string> functions_of(program& gpu) {
  std::set<std::string> names;
  for (Function const& function : gpu.module())
    if (!function.isDeclaration()) names.insert(function.getName().str());
  return names;
}

/// A call through a pointer can reach the functions of its type whose address the program takes.
pointer_targets targets_of(program& gpu) {
  pointer_targets result;
  std::map<FunctionType*, std::set<std::string>> by_type;
  for (Function const& function : gpu.module()) {
    if (function.isDeclaration() || !function.hasAddressTaken()) continue;
    result.all.insert(function.getName().str());
    by_type[function.getFunctionType()].insert(function.getName().str());
  }
  for (Function& function : gpu.module()) {
    if (function.isDeclaration()) continue;
    auto& reached = result.by_caller[function.getName().str()];
    for (Instruction& instruction : instructions(function)) {
      auto const* const call = dyn_cast<CallBase>(&instruction);
      if (call == nullptr || !call->isIndirectCall()) continue;
      auto const& targets = by_type[call->getFunctionType()];
      reached.insert(targets.begin(), targets.end());
    }
  }
  return result;
}

std::string shown(std::string const& name) { return name == "quarry_mpi_main" ? "main" : name; }

/// The names, with commas.
std::string list(auto const& names) {
  std::string text;
  for (std::string const& name : names) text += (text.empty() ? "" : ", ") + shown(name);
  return text;
}

/// The program's part of the deepest path and the first function of the runtime after it.
std::string deepest_path(variant const& each, std::set<std::string> const& program_functions) {
  std::string text;
  for (std::string const& name : each.need.path) {
    bool const is_program = program_functions.contains(name);
    if (!is_program && text.empty()) continue;  // the runtime's start of a rank
    text += (text.empty() ? "" : " > ") + shown(name);
    if (!is_program) break;
  }
  return text.empty() ? "the start of a rank" : text;
}

std::set<std::string> intersection(std::set<std::string> const& a, std::set<std::string> const& b) {
  std::set<std::string> both;
  std::ranges::set_intersection(a, b, std::inserter(both, both.end()));
  return both;
}

/// The bytes that each function spills: a line of ptxas names the function, the next one has the
/// numbers.
std::map<std::string, std::uint64_t> spills_in(std::string const& report) {
  constexpr std::string_view before_name = "Function properties for ";
  constexpr std::string_view after_number = " bytes spill stores";
  std::map<std::string, std::uint64_t> spills;
  std::istringstream lines{report};
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (auto const at = line.find(before_name); at != std::string::npos)
      name = line.substr(at + before_name.size());
    if (auto const at = line.find(after_number); at != std::string::npos && at > 0)
      spills[name] = std::strtoull(line.c_str() + line.rfind(' ', at - 1), nullptr, 10);
  }
  return spills;
}

/// A line for each function that spills.
void add_spills(std::ostringstream& text, std::set<std::string> const& functions,
                std::vector<variant> const& variants) {
  text << "\nspilled by each function with";
  for (variant const& each : variants) text << ' ' << each.registers;
  text << " registers\n";
  bool spills = false;
  for (std::string const& name : functions) {
    std::uint64_t sum = 0;
    std::string numbers;
    for (variant const& each : variants) {
      auto const found = each.spills.find(name);
      std::uint64_t const bytes = found == each.spills.end() ? 0 : found->second;
      sum += bytes;
      numbers += ' ' + std::to_string(bytes);
    }
    if (sum == 0) continue;
    spills = true;
    text << "  " << shown(name) << ':' << numbers << " B\n";
  }
  if (!spills) text << "  nothing\n";
}

}  // namespace

std::vector<variant> measure(program& gpu, installation const& installed,
                             scratch_folder const& scratch) {
  auto const targets = targets_of(gpu);
  std::vector<variant> variants;
  for (auto const& runtime : installed.runtimes) {
    std::string const name = scratch / ("program" + runtime.registers);
    auto graph = read_call_graph(read_file(name + ".cubin"));
    auto need = find_stack_need(graph, "quarry_mpi_run", targets);
    if (std::string const system = name + "_system.cubin"; std::filesystem::exists(system)) {
      auto const system_graph = read_call_graph(read_file(system));
      need.bytes =
          std::max(need.bytes, find_stack_need(system_graph, "quarry_mpi_run", targets).bytes);
    }
    auto spills = spills_in(read_file(name + ".ptxas.log"));
    variants.push_back({runtime.registers, std::move(graph), std::move(need), std::move(spills)});
  }
  return variants;
}

std::string report_of(program& gpu, std::vector<variant> const& variants) {
  if (variants.empty()) return "no code for a GPU was made\n";
  auto const functions = functions_of(gpu);
  std::ostringstream text;
  text << "registers  stack of a rank  deepest calls\n";
  for (variant const& each : variants) {
    bool const is_recursive = !intersection(each.need.recursive, functions).empty();
    std::string const bytes = std::to_string(each.need.bytes) + " B" + (is_recursive ? " +" : "");
    text << each.registers << std::string(11 - each.registers.size(), ' ') << bytes
         << std::string(17 - std::min<std::size_t>(16, bytes.size()), ' ')
         << deepest_path(each, functions) << '\n';
  }
  text << "\nframe of each function with";
  for (variant const& each : variants) text << ' ' << each.registers;
  text << " registers\n";
  for (std::string const& name : functions) {
    if (name == "quarry_mpi_init_record") continue;
    text << "  " << shown(name) << ':';
    for (variant const& each : variants) {
      auto const found = each.graph.functions.find(name);
      text << ' ' << (found == each.graph.functions.end() ? 0 : found->second.frame);
    }
    text << " B\n";
  }
  add_spills(text, functions, variants);
  text << "\nstack that quarry-mpirun gives each rank without --stack: "
       << (variants[0].need.is_open()
               ? "what the calls need, at least 16 KiB, because of recursion "
                 "or calls through pointers\n"
               : "what the calls need\n");
  auto const recursive = intersection(variants[0].need.recursive, functions);
  if (!recursive.empty())
    text << "\npossible recursion: " << list(recursive)
         << "\n  each level adds the frames of these functions to the stack: give quarry-mpirun a "
            "--stack\n";
  for (auto const& [caller, reached] : targets_of(gpu).by_caller)
    if (!reached.empty())
      text << "\ncalls through pointers in " << shown(caller) << " can reach " << list(reached)
           << '\n';
  return text.str();
}

}  // namespace quarry::compiler
