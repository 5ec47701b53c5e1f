// SPDX-License-Identifier: Apache-2.0
// What quarry-mpicc --check adds: MPI calls go through functions that look for faults of the
// program. Programs compiled without it do not pay for it.
#pragma once

#include "open_requests.hpp"
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

struct signature_note;

/// How many collective operations of a communicator the rank has begun.
struct operation_count {
  operation_count* next;
  communicator* shared;
  std::uint64_t value;
};

/// The state of a rank's checks.
struct checks {
  open_requests requests;
  made_object* objects;
  operation_count* counts;
  signature_note* received;  // of messages that were received, not compared yet (signatures.hpp)
  signature_note* spare_notes;
  std::uint32_t spares;
  std::uint32_t next_number;  // of the next request
  std::uint32_t reports;
  /// The rank has not counted an operation, since the heap had no memory. Its later ones would be
  /// compared with others.
  std::uint32_t compares_nothing;
};

/// The checks of ranks that have got no memory for them. Nothing is checked.
#ifdef __CUDACC__
__device__
#endif
inline checks no_checks{};  // nobody changes it

/// Requests of checked programs are numbers from here on; they wrap after 2^28,
/// and leave out the numbers of open requests.
inline constexpr MPI_Request first_checked_request = 0x60000000;
inline constexpr std::uint32_t checked_requests = 1u << 28;

/// The calling rank's checks; null if the heap had no memory when the rank first asked.
[[nodiscard]] QUARRY_SLOW checks* checks_of(rank_state& rank);

/// A line of a report. Where it has a place of the source, `@` and the number of the place and `@`.
class report_line {
 public:
  QUARRY_HD report_line();
  QUARRY_HD report_line& operator<<(char const* text);
  QUARRY_HD report_line& operator<<(std::int64_t number);
  QUARRY_HD report_line& at(std::uint32_t place);
  /// The name of a basic type; MPI_DATATYPE_NULL stands for several.
  QUARRY_SLOW report_line& name(MPI_Datatype basic);
  /// Writes the line, and counts it: the program's status is not 0 then.
  QUARRY_SLOW void write(rank_state& rank);

 private:
  static constexpr std::uint32_t most = 240;
  char text_[most];
  std::uint32_t length_ = 0;
};

/// A number for how C represents a basic type: the same for MPI_INT and MPI_INT32_T.
[[nodiscard]] QUARRY_SLOW std::uint32_t representation_of(MPI_Datatype basic);

/// The name of a function of MPI. It is a copy: no GPU can read another GPU's constants.
class function_name {
 public:
  function_name() = default;
  QUARRY_HD function_name(char const* text) {  // NOLINT: implicit
    std::uint32_t i = 0;
    for (; i + 1 < sizeof(text_) && text[i] != 0; ++i) text_[i] = text[i];
    for (; i < sizeof(text_); ++i) text_[i] = 0;
  }
  [[nodiscard]] QUARRY_HD char const* text() const { return text_; }

 private:
  char text_[40];
};

/// A collective operation, as all ranks of the communicator should call it.
struct checked_operation {
  function_name name;
  std::int64_t root = -1;  // -1: it has none
  std::int64_t op = -1;    // a predefined operation, or first_user_op for all others
  std::int64_t type = -1;  // of the signature of a buffer; -1: it may differ
  std::int64_t size = -1;  // bytes of each rank; -1: they may differ
  std::uint32_t place = 0;
  std::uint32_t rank = 0;  // of the world
};
static_assert(sizeof(checked_operation) == 80);

/// The ranks whose operations are compared: in an intercommunicator those of the own group.
[[nodiscard]] QUARRY_HD inline communicator* compared_group(membership const& at) {
  return at.shared->local != nullptr ? at.shared->local : at.shared;
}

/// Compares the call with that of other members. Ends the program with a report if they differ.
QUARRY_SLOW void check_collective(MPI_Comm handle, checked_operation call);
/// Forgets how many operations of a communicator the rank has begun, after it has freed that.
QUARRY_SLOW void forget_operations(communicator const* freed);

/// Remembers an object that a function has made, unless it failed. Returns `error`.
QUARRY_SLOW int note_made(int error, made_object::kind what, int handle);
QUARRY_SLOW void note_freed(made_object::kind what, int handle);

/// Reports the objects and requests that are left when the rank calls MPI_Finalize. A program may
/// free info objects later.
QUARRY_SLOW void report_leftovers(rank_state& rank);
/// Reports what is wrong when the rank's main function has returned: MPI still runs, or info
/// objects are left.
QUARRY_SLOW void report_end(rank_state& rank);

/// A buffer of an operation. It has no elements if the peer is MPI_PROC_NULL.
struct checked_buffer {
  void const* data;
  int count;
  MPI_Datatype type;

  QUARRY_HD checked_buffer(void const* first, int elements, MPI_Datatype of, int peer = 0)
      : data{first}, count{peer == MPI_PROC_NULL ? 0 : elements}, type{of} {}
};

/// Reports a byte that an unfinished operation uses, if one of both writes it. Returns whether
/// there is such a byte.
QUARRY_SLOW bool check_elements(rank_state& rank, used_elements const& asked, bool writes);
/// The same for a buffer.
QUARRY_SLOW void check_buffer(checked_buffer const& asked, bool writes);

/// Reports a byte that one call sends from one buffer and receives into another: MPI allows that
/// only by MPI_IN_PLACE and MPI_Sendrecv_replace. If neither buffer's parts are sorted and their
/// ranges overlap, takes O(m n) for m and n parts, else O(m + n log m).
QUARRY_SLOW void check_apart(rank_state& rank, used_buffer const& sent,
                             used_buffer const& received);
QUARRY_SLOW void check_apart(checked_buffer const& sent, checked_buffer const& received);

/// Reports a byte that one call receives into twice, as part of two messages. Takes time and memory
/// as `have_common_byte` of the parts.
QUARRY_SLOW void check_parts_apart(rank_state& rank, used_buffer const& received);

/// A request for the program in place of `handle`.
QUARRY_SLOW int note_begun(int error, MPI_Request* handle, begun_operation what,
                           checked_buffer const& buffer = {nullptr, 0, MPI_BYTE});

/// The same for an operation that reads a buffer and writes another one.
QUARRY_SLOW int note_both(int error, MPI_Request* handle, begun_operation what,
                          checked_buffer const& read, checked_buffer const& written);

/// The same for a persistent request, which has not begun.
QUARRY_SLOW int note_persistent(int error, MPI_Request* handle, begun_operation what,
                                checked_buffer const& buffer = {nullptr, 0, MPI_BYTE});
/// Another buffer that the operation of the program's request uses. `writes`: it writes the buffer.
/// Takes over the memory of the parts.
QUARRY_SLOW void note_buffer(rank_state& rank, MPI_Request handle, used_buffer const& used,
                             bool writes);
/// Before and after MPI_Start: as `check_buffer` for the request's buffers, then they are in use if
/// the operation has begun.
QUARRY_SLOW void check_start(rank_state& rank, MPI_Request handle);
QUARRY_SLOW void note_started(rank_state& rank, MPI_Request handle);

/// The runtime's handle of the program's request.
[[nodiscard]] QUARRY_SLOW MPI_Request runtime_handle(rank_state& rank, MPI_Request handle);

/// After a call that may have completed the request: if it did, forgets it, reports a send's buffer
/// that has changed, and sets the program's handle to MPI_REQUEST_NULL.
QUARRY_SLOW void note_ended(rank_state& rank, MPI_Request* handle, MPI_Request now);

/// The operation of the program's request is complete, but not the request: reports a send's buffer
/// that has changed. The program may use the buffers again.
QUARRY_SLOW void note_done(rank_state& rank, MPI_Request handle);

/// Where the request with the runtime's handle began; the place of the call now if there is none.
[[nodiscard]] QUARRY_SLOW std::uint32_t place_of(checks& own, MPI_Request handle);

/// Forgets a request that MPI_Request_free has freed.
QUARRY_SLOW void note_released(rank_state& rank, MPI_Request* handle);

}  // namespace quarry::inline QUARRY_ABI::mpi
