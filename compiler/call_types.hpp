// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <vector>

namespace quarry::compiler {

/// The sizes of a function's parameters and result, as PTX has them.
struct call_type {
  unsigned result_bits = 0;              // 0: no result
  std::vector<unsigned> parameter_bits;  // of a variadic function: those with a name
  bool is_variadic = false;
};

/// The types of the runtime's functions of the C library, by name without the prefix. `path` has
/// lines of the runtime's PTX; an empty path gives no types.
std::map<std::string, call_type> read_call_types(std::string const& path);

/// Converts the arguments and results of calls that do not fit the called function. C programs have
/// such calls where a function has no prototype, as `time(NULL)` without its header. A CPU ignores
/// the difference; the tools for PTX refuse it. The called functions are those of the program, and
/// those of the runtime with their `types`.
void match_calls(llvm::Module& module, std::map<std::string, call_type> const& types);

}  // namespace quarry::compiler
