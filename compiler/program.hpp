// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "object_file.hpp"
#include "privatize.hpp"

#include <llvm/IR/LLVMContext.h>

#include <memory>
#include <vector>

namespace quarry::compiler {

/// The whole program for one machine, as one module.
class program {
 public:
  explicit program(target machine) : machine_{machine} {}

  /// Joins the parts in their order. Throws a failure that names a part which does not fit.
  void join(std::vector<compiled> const& parts);

  [[nodiscard]] target machine() const { return machine_; }
  [[nodiscard]] llvm::Module& module() { return *whole_; }

 private:
  target machine_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> whole_;
};

/// Appends to `parts` each member of the libraries that defines what the parts lack. All libraries
/// are searched until nothing changes, so that their order matters only if two define a name: the
/// first is taken.
void add_members(std::vector<compiled>& parts, std::vector<library>& libraries);

/// Throws a failure with both files if two parts define the same function or variable.
void check_definitions(std::vector<compiled> const& parts);

}  // namespace quarry::compiler
