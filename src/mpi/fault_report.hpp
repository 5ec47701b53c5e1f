// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"
#include "rank_stacks.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// CPU: from now on, a rank that crashes is named on stderr before the signal ends the process.
///
/// The report has the rank, what happened, and the place of the rank's last MPI call. The handlers
/// run on a stack of their own, because a rank may have used up its stack.
void report_faults();

/// The stacks of the ranks that run from now on, so that a report can name an overflow. Null: none.
void set_stacks(rank_stacks const* stacks);

/// What the ranks have written, so that a report can be followed by lines without an end. Null:
/// nothing.
void set_output(line_writer* lines);

}  // namespace quarry::inline QUARRY_ABI::mpi
