// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_models.hpp"

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <optional>

namespace quarry::compiler {

/// Replaces what calls write into local variables by values. After
///
///     MPI_Comm_rank(MPI_COMM_WORLD, &rank);
///
/// becomes
///
///     MPI_Comm_rank(MPI_COMM_WORLD, NULL);  rank = quarry.model.varying();
///
/// the variable's address is no longer passed to a function, so that the variable can become a
/// value. Pointers that a call only reads are replaced by null, too, if what the call writes does
/// not depend on them. Nothing is replaced if the written bytes are not known.
void make_values(llvm::Module& model);

/// The number of bytes that a call writes; nothing if it is not a constant.
std::optional<std::uint64_t> bytes_written(llvm::CallBase const& call, effect const& written);

}  // namespace quarry::compiler
