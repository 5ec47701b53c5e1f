// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "privatize.hpp"

#include <llvm/Target/TargetMachine.h>

#include <functional>
#include <memory>
#include <string>

namespace quarry::compiler {

/// Makes LLVM's code generators ready. Must be called once, before other functions here.
void initialise_back_ends();

/// LLVM's code generator for the machine. At level 0 the one for the CPU compiles fast.
std::unique_ptr<llvm::TargetMachine> machine_for(target machine, std::string const& gpu,
                                                 unsigned level);

/// Runs LLVM's default optimisation of level `level` (0 to 3). From level 1 on, `after_inlining`
/// changes the module between the insertion of functions with what it simplifies, and passes that
/// combine memory accesses.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, unsigned level,
              std::function<void(llvm::Module&)> const& after_inlining);

/// Joins the functions that the module calls from the bitcode `library`. Returns an error message,
/// or an empty string.
std::string link_functions(llvm::Module& module, std::string const& library);

/// Joins the mathematical functions that the module calls from the CUDA toolkit's bitcode
/// `library`. Returns an error message, or an empty string.
std::string link_math(llvm::Module& module, std::string const& library);

/// Writes the module as an object file (CPU) or as PTX (GPU). Returns an error message, or an empty
/// string.
std::string write_code(llvm::Module& module, llvm::TargetMachine& machine, target kind,
                       std::string const& path);

}  // namespace quarry::compiler
