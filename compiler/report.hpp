// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "installation.hpp"
#include "program.hpp"
#include "scratch.hpp"

namespace quarry::compiler {

/// Prints, for each limit of registers, the registers and the stack that the program's functions
/// use on a GPU, the deepest stack of a rank, and recursion and indirect calls, which make that
/// depth unknown.
void print_report(program& gpu, installation const& installed, bool has_gpu_code,
                  scratch_folder const& scratch);

}  // namespace quarry::compiler
