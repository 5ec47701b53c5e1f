// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/InstrTypes.h>

namespace quarry::compiler {

/// Whether the call is one of printf's family, and its format has the conversion: `p` shows an
/// address, `n` writes through an argument. A format that is not constant has neither.
bool has_conversion(llvm::CallBase const& call, char conversion);

}  // namespace quarry::compiler
