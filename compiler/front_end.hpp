// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "installation.hpp"
#include "object_file.hpp"
#include "options.hpp"
#include "scratch.hpp"

#include <string>
#include <vector>

namespace quarry::compiler {

/// Files with the bitcode of one source.
struct bitcode_files {
  std::string source;
  std::string gpu, cpu;  // `gpu` is empty with --cpu-only
};

/// Has Clang translate the sources to bitcode for both machines, in parallel. Prints Clang's
/// warnings and errors in the order of the sources, each once. Throws a failure after all sources
/// have been tried if one of them has an error. `objects` are the names that dependency files use.
std::vector<bitcode_files> compile(std::vector<std::string> const& sources,
                                   std::vector<std::string> const& objects, options const& asked,
                                   installation const& parts, scratch_folder const& scratch);

/// Clang's command for the CPU without an output, as for -E and --show.
std::vector<std::string> clang_command(options const& asked, installation const& parts);

}  // namespace quarry::compiler
