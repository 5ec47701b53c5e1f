// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_graph.hpp"
#include "installation.hpp"
#include "program.hpp"
#include "scratch.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quarry::compiler {

/// The program's machine code for one limit of registers.
struct variant {
  std::string registers;
  call_graph graph;
  stack_need need;                              // of a rank, with the runtime's functions
  std::map<std::string, std::uint64_t> spills;  // bytes that a function of the program stores
};

/// Reads the cubins and ptxas's reports that the scratch folder has.
std::vector<variant> measure(program& gpu, installation const& installed,
                             scratch_folder const& scratch);

/// The report of --report: for each limit of registers the stack of a rank and its deepest path;
/// the frames of the program's functions, and the registers that they spill; recursion, which makes
/// the stack unknown, and calls through pointers.
std::string report_of(program& gpu, std::vector<variant> const& variants);

}  // namespace quarry::compiler
