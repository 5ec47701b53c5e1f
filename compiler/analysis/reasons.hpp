// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "uniformity.hpp"

#include <string>

namespace quarry::compiler {

/// The name that the source gives a function.
std::string name_in_source(llvm::Function const& function);

/// Why a rank may not execute the block: the branch and what it depends on, as the end of a
/// sentence: «the branch at life.c:80 depends on `rank`, from MPI_Comm_rank at life.c:31».
std::string why_not_collective(uniformity const& facts, llvm::BasicBlock const& block);

/// What a varying value depends on: «`rank`, from MPI_Comm_rank at life.c:31».
std::string why_varying(uniformity const& facts, llvm::Value const& value);

}  // namespace quarry::compiler
