// SPDX-License-Identifier: Apache-2.0
// The program in a form that the analysis can read: a copy that is never run.
#pragma once

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace quarry::compiler {

/// The function that starts a rank's program.
inline constexpr char const* root_name = "quarry_mpi_main";

/// Gives each call in the program a number, which copies of the call keep.
void number_calls(llvm::Module& program);

/// The numbers of the calls that lead from the start of the program to this call, which is the
/// last. Empty if the call has no number.
std::vector<std::uint32_t> path_of(llvm::CallBase const& call);

/// A copy of the program in which each calling context has its own instructions and as many
/// variables as possible are values:
///  - calls of the program's functions are replaced by the functions' bodies. Calls of recursive
///    functions, calls through pointers, and calls beyond a budget of instructions remain.
///  - Paths that always end the job (MPI_Abort, exit, a failed assertion) are removed: nobody
///    waits for a job that has ended.
///  - Global variables that only the start of the program uses become local variables.
///  - What a function of MPI or the C library writes into a local variable becomes a value: a call
///    of a model function, followed by a store.
std::unique_ptr<llvm::Module> make_model(llvm::Module const& program);

/// The prefix of model functions, and what such a call stands for.
inline constexpr char const* model_prefix = "quarry.model.";
/// Stand before a branch to a path that was removed because the job ends there, if a rank can wait
/// on that path, or take part in a collective operation.
inline constexpr char const* waiting_end = "quarry.model.end.waits";
inline constexpr char const* meeting_end = "quarry.model.end.meets";
llvm::StringRef original_name(llvm::CallBase const& call);
void set_original_name(llvm::CallBase& call, llvm::StringRef name);

}  // namespace quarry::compiler
