// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "installation.hpp"
#include "object_file.hpp"
#include "options.hpp"
#include "scratch.hpp"

#include <string>
#include <vector>

namespace quarry::compiler {

/// Makes one executable of the program's parts and the runtime: code for the CPU, and machine code
/// for the GPU with each limit of registers. Returns its file in the scratch folder. Throws a
/// failure that names everything that is not supported.
std::string link_program(std::vector<compiled> const& parts, options const& asked,
                         installation const& installed, scratch_folder const& scratch);

}  // namespace quarry::compiler
