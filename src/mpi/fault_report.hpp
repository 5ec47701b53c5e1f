// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"
#include "rank_stacks.hpp"

#include <memory>
#include <mutex>

namespace quarry::inline QUARRY_ABI::mpi {

/// CPU: from now on, a rank that crashes is named on stderr before the signal ends the process.
///
/// The report has the rank, what happened, and the place of the rank's last MPI call. If ranks on
/// several threads crash, the first is named.
void report_faults();

/// The stack of the handlers of `report_faults` on the thread that constructs it, because a rank
/// may have used up its own stack. Its thread destroys it.
class handler_stack {
 public:
  handler_stack();
  ~handler_stack();
  handler_stack(handler_stack const&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

/// The stacks of the ranks that run from now on, so that a report can name an overflow. Null: none.
void set_stacks(rank_stacks const* stacks);

/// What the ranks have written, so that a report can be followed by lines without an end. `lock` is
/// held while ranks write. Null: nothing.
void set_output(line_writer* lines, std::timed_mutex* lock);

}  // namespace quarry::inline QUARRY_ABI::mpi
