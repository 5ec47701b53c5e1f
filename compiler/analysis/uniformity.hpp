// SPDX-License-Identifier: Apache-2.0
// Which values are the same in all ranks, and which code all ranks execute.
#pragma once

#include "memory_objects.hpp"
#include "reaching_writes.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/UniformityAnalysis.h>
#include <llvm/IR/PassManager.h>

#include <map>
#include <memory>

namespace quarry::compiler {

/// The facts about a model (model_program.hpp).
///
/// A value is *uniform* if the n-th execution of its instruction gives the same value in all ranks;
/// a pointer is uniform if it points to corresponding places. Code is *collective* if all ranks
/// execute it equally often and in the same order with other collective code.
///
/// LLVM's UniformityInfo finds what depends on varying values within a function: operands, joins
/// of branches, and values that leave a loop whose exit varies. This class adds what a rank shares
/// with others by MPI, memory, and calls. It begins with the assumption that all is uniform, and
/// adds sources of variation until nothing changes, so that the result is the greatest fixpoint.
class uniformity {
 public:
  explicit uniformity(llvm::Module& model);
  ~uniformity();

  [[nodiscard]] bool is_collective(llvm::BasicBlock const& block) const;
  [[nodiscard]] bool varies(llvm::Use const& use) const;
  [[nodiscard]] bool varies(llvm::Value const* value) const;
  /// Whether the bytes that `reader` sees through the pointer may vary. Size 0 stands for all bytes
  /// from there on.
  [[nodiscard]] bool shows_varying(llvm::Value const* pointer, std::uint64_t size,
                                   llvm::Instruction const& reader) const;
  /// The instruction that wrote such bytes; null if none did, or if it is not known.
  [[nodiscard]] llvm::Instruction const* varying_write(llvm::Value const* pointer,
                                                       std::uint64_t size,
                                                       llvm::Instruction const& reader) const;
  /// Whether a pointer can point anywhere.
  [[nodiscard]] bool is_unknown(llvm::Value const* pointer) const {
    return memory_.pointees_of(pointer).is_unknown();
  }

  /// Why a value that depends on no varying operand varies: the instruction that wrote it to
  /// memory, the call that passed it, or null if the value is itself a source.
  [[nodiscard]] llvm::Instruction const* cause_of(llvm::Value const* source) const;
  [[nodiscard]] bool is_source(llvm::Value const* value) const { return sources_.contains(value); }
  /// The varying branch that decides whether a rank executes the block; null if the function's
  /// caller decides.
  [[nodiscard]] llvm::Instruction const* branch_over(llvm::BasicBlock const& block) const;
  /// The call, in code that is not collective, of a function; null if it is called through a
  /// pointer.
  [[nodiscard]] llvm::Instruction const* divergent_call_of(llvm::Function const& function) const;
  [[nodiscard]] bool has_varying_branch(llvm::BasicBlock const& block) const;
  /// The communicator of which this call makes one with the same ranks; null if it does not.
  [[nodiscard]] llvm::Value const* copied_communicator(llvm::CallBase const& call) const;
  /// Whether the communicator has all ranks.
  [[nodiscard]] bool is_world(llvm::Value const* communicator) const;
  /// Whether functions of MPI can return an error in some ranks.
  [[nodiscard]] bool has_errors() const { return errors_return_; }

 private:
  struct function_facts;

  void analyse(llvm::Function& function);
  bool add_source(llvm::Value const* value, llvm::Instruction const* cause);
  bool update(llvm::Function& function);
  /// LLVM's analysis overlooks joins and values that leave loops (LLVM issue 137277). Adds as
  /// sources what is left of varying code outside of it: the joins where such code ends, and values
  /// that leave a loop with a varying exit.
  bool add_joins(llvm::Function& function);
  bool update_call(llvm::CallBase& call);
  bool update_model_call(llvm::CallBase& call);
  bool update_writes(llvm::Instruction& instruction);
  bool write(object_write const& written);
  [[nodiscard]] bool writes_varying(llvm::Instruction& instruction) const;
  [[nodiscard]] bool external_write_varies(llvm::CallBase const& call) const;
  /// Whether a number that is read may be an address, or the processor's own.
  [[nodiscard]] bool reads_address(llvm::Instruction const& instruction) const;
  /// Whether the result depends on where objects lie in a rank's memory.
  [[nodiscard]] bool compares_addresses(llvm::ICmpInst const& comparison) const;
  /// Whether two addresses in objects that may be different are subtracted.
  [[nodiscard]] bool subtracts_addresses(llvm::BinaryOperator const& difference) const;
  [[nodiscard]] bool inputs_vary(llvm::CallBase const& call) const;

  llvm::Module& model_;
  memory_objects memory_;
  reaching_writes reaching_;
  llvm::SmallPtrSet<llvm::Value const*, 32> sources_;
  std::map<llvm::Value const*, llvm::Instruction const*> causes_;
  std::map<llvm::Function const*, llvm::Instruction const*> divergent_functions_;
  llvm::SmallPtrSet<llvm::Function const*, 2> jumping_functions_;  // that call setjmp
  std::vector<std::vector<object_write>> varying_writes_;          // by object
  std::vector<std::vector<object_write>> all_writes_;              // by object
  llvm::SmallPtrSet<llvm::Instruction const*, 32> varying_writers_;
  bool errors_return_ = false;                        // see has_errors
  llvm::Instruction const* unknown_write_ = nullptr;  // through a pointer that can point anywhere
  llvm::FunctionAnalysisManager analyses_;
  std::map<llvm::Function const*, std::unique_ptr<function_facts>> facts_;
};

}  // namespace quarry::compiler
