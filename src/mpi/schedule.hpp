// SPDX-License-Identifier: Apache-2.0
// Collective operations that go on while the rank does other things.
#pragma once

#include "requests.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A step of a collective operation.
struct schedule_step {
  enum class kind : std::uint32_t { send, receive, copy, reduce } what;
  std::uint32_t waits;  // until all steps before it are done
  void const* source;   // send, copy: the elements; reduce: those of lower ranks
  void* target;       // receive, copy: the elements; reduce: those of higher ranks, and the result
  bytes count;        // of elements at `source`; receive: at `target`
  MPI_Datatype type;  // of these
  MPI_Datatype to_type;  // copy: of the elements at `target`
  std::int32_t peer;     // send: a rank of the world; receive: a rank of the communicator
  std::int32_t tag;
};

/// A collective operation as steps, made once from the arguments of the call. The steps begin in
/// their order; messages are on their way at the same time, unless a step waits. Each wait and each
/// look of the rank advances its schedules (`advance_schedules`). Only its rank uses a schedule.
///
/// A schedule needs nothing of its communicator: its peers are ranks of the world, and its messages
/// have the context of the communicator's collective operations. It keeps types and the operation
/// that the program may free.
struct schedule {
  /// A message on its way. Other ranks read `sent`.
  struct flight {
    request posted;  // of kind `none` if this place is free
    message sent;
  };
  /// Memory of the schedule. The bytes follow.
  struct alignas(16) block {
    block* next;
  };

  schedule* next;  // in the rank's list of those that have begun
  request* owner;  // null for a blocking call
  schedule_step* steps;
  std::uint32_t count;
  std::uint32_t position;  // of the first step that has not begun
  flight* flights;
  std::uint32_t places;  // for flights
  std::uint32_t in_flight;
  block* memory;
  membership at;       // what sends need of the communicator
  communicator peers;  // for `at`: ranks are those of the world
  MPI_Op op;
  operation what;
  form how;
  std::uint32_t is_done;
  std::int32_t error;      // of the first message that failed
  std::int32_t own_error;  // before the first message: the caller's own part is too long
};

/// Begins all steps that can begin. The schedule is the rank's until it is done.
QUARRY_SLOW void start_schedule(rank_state& rank, schedule& run);

/// Advances the schedules that have begun. Returns whether anything has changed.
QUARRY_SLOW bool advance_schedules(rank_state& rank);

/// Frees a schedule that is not in progress.
QUARRY_SLOW void delete_schedule(rank_state& rank, schedule* done);

/// What a rank that waits for the schedule tells the launcher.
[[nodiscard]] QUARRY_HD inline wait_reason reason_of(schedule const& run) {
  return reason_of(static_cast<call>(scheduled_call(run.what, run.how)), MPI_PROC_NULL, 0,
                   run.at.context + 1);
}

/// The schedule of a request of kind `collective`.
[[nodiscard]] QUARRY_HD inline schedule& schedule_of(request const& owner) {
  return *static_cast<schedule*>(owner.data);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
