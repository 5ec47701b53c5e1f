// SPDX-License-Identifier: Apache-2.0
// Everything that a function does with an array that it allocates.
#pragma once

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <string>

namespace quarry::compiler {

/// The arrays whose addresses variables of a function share, with all uses of the addresses. A loop
/// that exchanges two arrays makes one group of them.
///
/// If `refusal` is empty, each address in the group is that of an element of one of the arrays,
/// `width` divides its distance from the array's start, and each access has `width` bytes.
struct array_uses {
  llvm::SetVector<llvm::CallInst*> allocations;
  llvm::SetVector<llvm::Instruction*> addresses;        // the allocations, and what comes from them
  llvm::SmallVector<llvm::Instruction*> accesses;       // loads and stores
  llvm::SmallSetVector<llvm::MemIntrinsic*, 4> blocks;  // memcpy and the like
  llvm::SmallVector<llvm::CallInst*> frees;
  llvm::SmallVector<llvm::Use*> droppable;  // of assumptions
  unsigned width = 0;
  std::string refusal;  // why the arrays must stay as they are, as a sentence without its end
};

/// Whether the call allocates an array for all ranks with one size: after specialise().
bool is_collective_allocation(llvm::Instruction const& instruction);

/// The group of the array that `allocation` returns.
array_uses uses_of(llvm::CallInst& allocation);

}  // namespace quarry::compiler
