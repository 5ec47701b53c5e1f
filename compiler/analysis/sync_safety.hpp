// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "uniformity.hpp"

#include <llvm/ADT/DenseMap.h>

#include <map>
#include <vector>

namespace quarry::compiler {

/// Where ranks could wait for all others without the risk that they wait for ever.
///
/// A collective call is *sync-safe* if, on every path to it, no rank can have waited for another
/// since the last *meeting*: the start of the program, or a barrier, MPI_Allreduce, MPI_Allgather
/// or MPI_Alltoall of all ranks in collective code. This is a forward data flow over the model,
/// with a summary for each function that stays a call.
///
/// A barrier of all ranks in collective code is a meeting of corresponding executions only if the
/// ranks have called equally many operations of its communicator before. MPI matches operations by
/// their order alone:
///
///     if (rank == 0) MPI_Barrier(world);  // 1st of rank 0
///     MPI_Barrier(world);                 // 2nd of rank 0; 1st of the others, so they go on
///     p = malloc(8);
///     if (rank != 0) MPI_Barrier(world);  // 2nd of the others
///
/// So there are no meetings but the start if some collective operation, of a communicator that may
/// have all ranks, lies in code that is not collective, or has a communicator that varies. Neither
/// are there if the program handles errors of MPI: an operation that fails in one rank ends there.
///
/// Why no set of ranks blocks for ever, if ranks wait at all sync-safe calls for all others:
///
/// All ranks execute the meetings and the sync-safe calls in one order, because these lie in
/// collective code. Assume that ranks are blocked for ever, and that they were not without the
/// waits that are added. Then a rank A waits at a sync-safe call. Take the first such execution P
/// in that order, and a rank B that never arrives at P. B is alive, and its job goes on, so that B
/// is blocked in an operation before P. This operation is
///  - not another sync-safe call Q: Q comes before P in the order, A has passed Q, so all ranks
///    have arrived at Q, and B leaves it;
///  - not an operation that waits for another rank, between the last meeting M before P and P:
///    there is none on any path from M to P, by definition;
///  - not M: A has passed M, so that all ranks have begun M, and M ends, because ranks that wait
///    make progress;
///  - nothing before M: A has passed M, so that B has begun M. If M is the start, nothing is before
///    it.
///
/// It depends on the assumptions of the analysis (docs/design/mpi_analysis.md), and on these: ranks
/// wait for each other through calls of MPI alone; a job ends if one of its ranks ends with an
/// error; memory suffices; who waits makes progress.
class sync_safety {
 public:
  sync_safety(llvm::Module const& model, uniformity const& facts);

  /// A call in which a rank may have waited for another since the last meeting before the
  /// instruction; null if there is none: ranks in collective code can wait here for all others.
  [[nodiscard]] llvm::Instruction const* wait_before(llvm::Instruction const& place) const;

 private:
  /// What holds at a place on some path. A summary of a function is the state at its returns.
  struct state {
    llvm::Instruction const* waited = nullptr;  // since the last meeting in the function
    bool is_of_caller = false;  // there was no meeting in the function: the caller's waits count

    bool add(state const& other);
  };

  /// Whether collective operations with all ranks match in their order in the source.
  [[nodiscard]] bool are_aligned() const;
  [[nodiscard]] bool is_part(llvm::Value const* communicator, unsigned depth = 0) const;
  [[nodiscard]] bool is_meeting(llvm::CallBase const& call) const;
  void apply(llvm::CallBase const& call, state& now) const;
  [[nodiscard]] llvm::Instruction const* resolved(state const& now,
                                                  llvm::Function const& function) const;
  bool update(llvm::Function const& function);

  uniformity const& facts_;
  bool has_meetings_ = false;
  std::map<llvm::BasicBlock const*, std::vector<llvm::CallBase const*>> calls_;  // that matter
  llvm::DenseMap<llvm::BasicBlock const*, state> begins_;
  std::map<llvm::Function const*, state> summaries_;
  std::map<llvm::Function const*, llvm::Instruction const*> entered_;  // waits of the callers
  llvm::Instruction const* pointer_wait_ = nullptr;  // in a function whose address is used
  llvm::Module const& model_;
};

}  // namespace quarry::compiler
