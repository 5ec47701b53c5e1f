// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/InstrTypes.h>

#include <cstdint>

namespace quarry::compiler {

/// For which other ranks a call may wait.
enum class company : std::uint8_t {
  none,      // no other: it ends whatever other ranks do
  some,      // another rank, or some of them
  together,  // a collective operation in which a rank may wait for some ranks
  all        // a collective operation that ends after all ranks of its communicator have begun it
};

struct call_wait {
  company waits_for = company::none;
  std::int8_t communicator = -1;  // an argument of a collective operation; -1 if it is unknown
};

/// What MPI says of the function that is called; of a call through a pointer nothing is known.
///
/// A rank's result of MPI_Allreduce, MPI_Allgather and MPI_Alltoall needs data of all ranks, if
/// there are data: the count must be a constant other than 0, and the type a predefined one.
/// MPI_Isend and its family start a message, for which the runtime may wait until the receiver
/// makes progress: in any call that waits, so that this wait is none for the receiver's program.
/// MPI_Test and MPI_Iprobe do not wait, but a program can call them until another rank has sent.
call_wait wait_of(llvm::CallBase const& call);

}  // namespace quarry::compiler
