// SPDX-License-Identifier: Apache-2.0
// Paths of a program on which the job ends, and calls after which a rank leaves the others.
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <set>

namespace quarry::compiler {

/// Ends the block after a call that does not return.
void end_after(llvm::CallInst& call);

/// Ends blocks after calls that do not return (exit, MPI_Abort, longjmp).
void end_at_exits(llvm::Function& function);

/// Removes the branches to blocks from which the job always ends with an error: nobody waits for a
/// job that has ended. A rank that ends without an error ends no job: others go on.
void remove_ending_paths(llvm::Function& function);

/// The functions in which a rank can end without an error, or jump out of the function.
std::set<llvm::Function*> leaving_functions(llvm::Module& model);

/// A call of a function that was not inserted hides its exits. Adds a varying branch after the
/// call, as if some ranks ended there.
void add_hidden_exits(llvm::Function& function, std::set<llvm::Function*> const& leaving);

/// Whether the function never returns, because the job ends in it.
bool always_ends_job(llvm::Function& function);

}  // namespace quarry::compiler
