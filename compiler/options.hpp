// SPDX-License-Identifier: Apache-2.0
// The options of quarry-mpicc: those of mpicc, and a few of its own.
#pragma once

#include <string>
#include <vector>

namespace quarry::compiler {

/// What the user wants to have.
enum class product {
  executable,
  object,       // -c
  front_end,    // -E, -M, -fsyntax-only: Clang's output for the CPU
  information,  // --version, -dumpmachine and the like: no source file is compiled
};

/// How --explain shows the classes of allocations.
enum class explanation { none, text, json, source, arrays };

/// How private arrays lie (lane_arrays.hpp).
enum class array_form {
  contiguous,   // --contiguous-arrays
  interleaved,  // on the GPU
  checked       // --check-arrays: interleaved on both machines, for tests on the CPU
};

/// Where ranks wait for all others before they allocate, in tests.
enum class meeting_place { none, sync_safe, collective };

enum class input_kind { source, binary, library };

struct input {
  input_kind kind;
  std::string name;  // a path, or the name in -l<name>
};

struct options {
  product wanted = product::executable;
  bool is_verbose = false;                    // -v: shows the commands
  bool shows_only = false;                    // --show: shows Clang's commands and runs none
  bool reports = false;                       // --report
  bool records_allocations = false;           // --record-allocations: for tests of the analysis
  bool assumes_collective = false;            // --assume-collective: all allocations, for tests
  meeting_place meets = meeting_place::none;  // --meet-at-safe, --meet-at-collective: for tests
  bool merges_arms = true;                    // false after --separate-arms, to compare
  explanation explains = explanation::none;   // --explain
  array_form arrays = array_form::interleaved;
  bool keeps_scratch = false;    // -save-temps
  bool moves_frames = true;      // false after --stack-frames: no move_frames_to_heap on the CPU
  bool checks_calls = false;     // --check: MPI calls go through src/mpi/checks.hpp
  bool checks_divisors = false;  // --check-divisors: report_zero_divisors also on the CPU
  bool traces_calls = false;     // --trace: trace_calls
  bool is_for_cpu_only = false;  // --cpu-only
  bool embeds_ptx = false;       // --ptx
  bool spans_processes = false;  // --processes
  unsigned level = 2;            // -O
  std::string gpu = "sm_90";
  std::string output;                      // -o
  std::vector<std::string> front_end;      // for Clang, on both machines
  std::vector<std::string> cpu_front_end;  // for Clang on the CPU alone: warnings and dependencies
  std::vector<std::string> link;           // for the linker of the executable
  std::vector<std::string> information;    // the words that ask for information
  std::vector<std::string> library_paths;
  std::vector<input> inputs;
  bool writes_dependencies = false;      // -MD, -MMD
  bool names_dependency_file = false;    // -MF
  bool names_dependency_target = false;  // -MT, -MQ
};

/// Reads the command line. Expands response files (`@file`). Throws a failure that names every
/// option and file that is not supported.
options parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

}  // namespace quarry::compiler
