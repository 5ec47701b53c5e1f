// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/ValueHandle.h>

#include <utility>

namespace quarry::compiler {

/// Values and the constants that they usually have. Handles, because LLVM removes values that it
/// can simplify.
using usual_values = llvm::SmallVector<std::pair<llvm::WeakTrackingVH, llvm::ConstantInt*>>;

/// Gives each small innermost loop that uses some of these values and does not change them a copy
/// in which they are constants. Before the loop the program chooses: it runs the copy if all of
/// them have their constants.
void add_loop_versions(llvm::Function& function, usual_values const& values);

}  // namespace quarry::compiler
