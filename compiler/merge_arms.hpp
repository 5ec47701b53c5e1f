// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <vector>

namespace quarry::compiler {

/// Makes one call of equal allocations in all arms of a branch or switch that not all ranks take
/// alike:
///
///     if (rank == 0) p = malloc(n); else q = malloc(n);     // NO and NO
///
///     memory = malloc(n);                                   // CU
///     if (rank == 0) p = memory; else q = memory;
///
/// An arm may branch again. Each path from the branch must come to such a call, with the same
/// function (malloc or calloc) and the same size, before any other call, any loop, and any write
/// to the memory from which the size is loaded. So each path allocates once, as before, and the
/// allocation sees the same size. An arm that writes to `errno` through a pointer before it
/// allocates may find another value there if the allocation fails.
///
/// Allocations in branches that all ranks take alike stay: they are collective already. The
/// program's calls must have numbers (number_calls), and get new ones if this returns true, because
/// something was merged.
bool merge_arms(llvm::Module& program);

/// The places of the calls that a call replaces; empty if it is a call of the source.
std::vector<llvm::DILocation const*> merged_places(llvm::CallBase const& call);

}  // namespace quarry::compiler
