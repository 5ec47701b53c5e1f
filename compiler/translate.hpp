// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "analysis/explain.hpp"
#include "installation.hpp"
#include "lane_arrays.hpp"
#include "options.hpp"
#include "program.hpp"
#include "unsupported.hpp"

#include <set>
#include <string>
#include <vector>

namespace quarry::compiler {

/// The program's code for one machine, or why there is none.
struct translation {
  unsupported_list missing;         // if not empty, the fields below are empty
  std::vector<std::string> places;  // of calls and of divisions, by number
  std::vector<std::string> traced;  // --trace: the names of functions, by number
  std::vector<allocation_site> sites;
  std::vector<lane_array_site> arrays;
};

/// Everything between joined bitcode and code, which is written to `path`: an object for the CPU,
/// PTX for the GPU. Translations for two machines can run at once.
translation translate(program& whole, options const& asked, installation const& installed,
                      std::set<std::string> const& runtime_functions, std::string const& path);

/// The names of the functions and variables that the runtime's archive defines.
std::set<std::string> names_in(std::string const& archive);

}  // namespace quarry::compiler
