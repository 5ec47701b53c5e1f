// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory_objects.hpp"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Analysis/CycleAnalysis.h>

#include <vector>

namespace quarry::compiler {

/// Which writes of an object a reader can still see: those from which a path leads to the reader
/// on which no other instruction certainly overwrites all the bytes that are read. So a structure
/// that one rank fills is uniform after MPI_Bcast, although it stays in memory.
///
/// Only for objects of which a rank has one instance at the reader: global variables, and local
/// variables and allocations of the function that starts the program; an allocation in a loop only
/// if the pointer is the one that this iteration made. For others, all writes reach all readers.
class reaching_writes {
 public:
  reaching_writes(llvm::Module const& model, memory_objects const& memory);

  /// The first of `writers` that reaches the reader; null if none does. `reads` has the bytes that
  /// the reader reads through `pointer`. An instruction for which `hides` is false overwrites
  /// nothing.
  [[nodiscard]] llvm::Instruction const* find(
      llvm::Instruction const& reader, llvm::Value const* pointer, object_write const& reads,
      llvm::ArrayRef<llvm::Instruction const*> writers,
      llvm::function_ref<bool(llvm::Instruction const&)> hides) const;

 private:
  void add_overwrites(llvm::Instruction const& instruction);
  void add_overwrite(llvm::Instruction const& writer, llvm::Value const* pointer,
                     std::uint64_t bytes);
  [[nodiscard]] bool has_one_instance(unsigned object, llvm::Value const* pointer) const;

  llvm::DataLayout const& layout_;
  memory_objects const& memory_;
  llvm::Function const* root_;
  llvm::CycleInfo cycles_;                                                    // of the root
  llvm::DenseMap<llvm::Value const*, std::vector<object_write>> overwrites_;  // by variable
};

}  // namespace quarry::compiler
