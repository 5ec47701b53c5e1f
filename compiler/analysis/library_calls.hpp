// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

namespace quarry::compiler {

/// Replaces calls of C library functions whose effect no row of the table can say by code of the
/// model that has the same effect:
///  - posix_memalign returns its allocation through a pointer;
///  - strtok, strtok_r and strsep keep a pointer into the text for their next call.
void expand_library_calls(llvm::Module& model);

}  // namespace quarry::compiler
