// SPDX-License-Identifier: Apache-2.0
// What quarry-mpicc --check adds: MPI calls go through functions that look for faults of the
// program. Programs compiled without it do not pay for it.
#pragma once

#include "requests.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// An object that the program has made and not freed.
struct made_object {
  enum class kind : std::uint32_t { communicator, type, group, op, info };

  made_object* next;
  kind what;
  int handle;
  std::uint32_t place;  // in the source: where it was made
};

/// A request that the program has got and not completed.
struct open_request {
  open_request* next;
  MPI_Request handle;  // the runtime's
  std::uint32_t number;
  std::uint32_t place;
  std::uint32_t receives;  // whether the operation writes the buffer
  char const* begin;       // the buffer; null if its bytes do not lie together
  char const* end;
  std::uint64_t hash;  // of a send's buffer when the send began
};

/// How many collective operations of a communicator the rank has begun.
struct operation_count {
  operation_count* next;
  communicator* shared;
  std::uint64_t value;
};

/// The state of a rank's checks.
struct checks {
  open_request* requests;
  made_object* objects;
  operation_count* counts;
  std::uint32_t next_number;  // of the next request
  std::uint32_t reports;
};

/// Requests of checked programs are numbers from here on; they wrap after 2^28.
inline constexpr MPI_Request first_checked_request = 0x60000000;
inline constexpr std::uint32_t checked_requests = 1u << 28;

/// The calling rank's checks; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW checks* checks_of(rank_state& rank);

/// A line of a report. Where it has a place of the source, `@` and the number of the place and `@`.
class report_line {
 public:
  QUARRY_HD report_line();
  QUARRY_HD report_line& operator<<(char const* text);
  QUARRY_HD report_line& operator<<(std::int64_t number);
  QUARRY_HD report_line& at(std::uint32_t place);
  /// Writes the line, and counts it: the program's status is not 0 then.
  QUARRY_SLOW void write(rank_state& rank);

 private:
  static constexpr std::uint32_t most = 200;
  char text_[most];
  std::uint32_t length_ = 0;
};

/// A collective operation, as all ranks of the communicator should call it.
struct checked_operation {
  char const* name;
  std::int64_t root = -1;  // -1: it has none
  std::int64_t op = -1;    // a predefined operation, else -1
  std::int64_t type = -1;  // a predefined type, else -1
  std::int64_t size = -1;  // bytes of each rank; -1: they may differ
  std::uint32_t place = 0;
  std::uint32_t rank = 0;  // of the world
};
static_assert(sizeof(checked_operation) == 48);

/// What the first member has called, in a ring of the communicator.
struct called_collective {
  /// 2 * n: the words are those of operation n; 2 * n - 1: a rank writes them. Atomic.
  std::uint64_t state;
  std::uint64_t words[sizeof(checked_operation) / 8];  // atomic
};
struct called_collectives {
  static constexpr std::uint32_t places = 64;
  called_collective calls[places];
};

/// Compares the call with that of other members. Ends the program with a report if they differ.
QUARRY_SLOW void check_collective(MPI_Comm handle, checked_operation call);

/// Remembers an object that a function has made, unless it failed. Returns `error`.
QUARRY_SLOW int note_made(int error, made_object::kind what, int handle);
QUARRY_SLOW void note_freed(made_object::kind what, int handle);
/// Forgets a communicator, before it is freed.
QUARRY_SLOW void note_end_of(MPI_Comm handle);

/// Reports the objects and requests that are left when the rank calls MPI_Finalize.
QUARRY_SLOW void report_leftovers(rank_state& rank);

/// Reports a buffer that an unfinished operation uses, if one of both writes it.
QUARRY_SLOW void check_buffer(void const* data, int count, MPI_Datatype type, bool writes);

/// A request for the program in place of `handle`. `data` is the operation's buffer.
QUARRY_SLOW int note_begun(int error, MPI_Request* handle, void const* data, int count,
                           MPI_Datatype type, bool receives);

/// The runtime's handle of the program's request.
[[nodiscard]] QUARRY_SLOW MPI_Request runtime_handle(rank_state& rank, MPI_Request handle);

/// After a call that may have completed the request: if it did, forgets it, reports a send's buffer
/// that has changed, and sets the program's handle to MPI_REQUEST_NULL.
QUARRY_SLOW void note_ended(rank_state& rank, MPI_Request* handle, MPI_Request now);

/// Forgets a request that MPI_Request_free has freed.
QUARRY_SLOW void note_released(rank_state& rank, MPI_Request* handle);

}  // namespace quarry::inline QUARRY_ABI::mpi
