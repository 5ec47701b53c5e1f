// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "schedule.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The ranks of a group, as peers of a schedule's messages.
struct peer_group {
  communicator const* members;
  std::uint32_t size;
  std::uint32_t own;  // the caller's number: messages to and from higher ones come first
  std::int32_t tag;
};

/// Makes the steps of a schedule. If the heap has no memory, later calls do nothing, and `finish`
/// returns false.
class schedule_builder {
 public:
  QUARRY_HD schedule_builder(rank_state& rank, schedule& made) : rank_{rank}, made_{made} {}

  /// The next step waits until all steps before it are done.
  QUARRY_HD void wait() { waits_ = 1; }

  /// `direction` distinguishes messages between two ranks whose order differs.
  QUARRY_SLOW void send(peer_group const& to, std::uint32_t peer, void const* data, bytes count,
                        MPI_Datatype type, std::uint32_t direction = 0);
  QUARRY_SLOW void receive(peer_group const& from, std::uint32_t peer, void* data, bytes count,
                           MPI_Datatype type, std::uint32_t direction = 0);
  QUARRY_SLOW void copy(void const* source, bytes count, MPI_Datatype type, void* target,
                        MPI_Datatype to_type);
  /// The same for a buffer of `room` elements. If that is not enough, copies what it has room for,
  /// and the operation fails.
  QUARRY_SLOW void copy_part(void const* source, bytes count, MPI_Datatype type, void* target,
                             bytes room, MPI_Datatype to_type);
  /// result[i] = lower[i] op result[i]
  QUARRY_SLOW void reduce(void const* lower, void* result, bytes count, MPI_Datatype type);

  /// Memory that the schedule owns; null if the size is 0 or the heap has none.
  QUARRY_SLOW char* memory(bytes size);
  /// The same for elements. They may begin before or behind the address.
  QUARRY_SLOW char* elements(bytes count, MPI_Datatype type);

  /// Ends the schedule. At most `most_messages` are on their way at once.
  [[nodiscard]] QUARRY_SLOW bool finish(std::uint32_t most_messages);

 private:
  QUARRY_SLOW void add(schedule_step const& step);

  rank_state& rank_;
  schedule& made_;
  std::uint32_t capacity_ = 0;
  std::uint32_t waits_ = 0;
  bool has_failed_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
