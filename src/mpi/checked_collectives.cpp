// SPDX-License-Identifier: Apache-2.0
// MPI's collective operations in programs that quarry-mpicc --check made.
#include "collective_calls.hpp"
#include "lent_buffers.hpp"
#include "reduction.hpp"
#include "signatures.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Says how many bytes of which types each rank should send or receive.
QUARRY_SLOW void describe_buffer(checked_operation& made, part_buffer const& buffer) {
  rank_state& rank = self();
  made.size = buffer.count * static_cast<std::int64_t>(element_size(rank, buffer.type));
  if (made.size <= 0) return;  // buffers without elements may have other types
  type_signature const signature =
      signature_of(rank, static_cast<bytes>(buffer.count), buffer.type);
  if (signature.is_known) made.type = static_cast<std::int64_t>(signature.hash >> 1);
}

/// The same for an operation in which all ranks have the same count for each rank: a hash of the
/// bytes stands for the size.
QUARRY_SLOW void describe_counts(checked_operation& made, MPI_Comm communicator,
                                 part_buffer const& buffer) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr || is_intercommunicator(*at) || buffer.counts == nullptr ||
      !is_type(rank, buffer.type))
    return;
  std::uint64_t const element = element_size(rank, buffer.type);
  std::uint64_t hash = 0xcbf29ce484222325;
  bool has_elements = false;
  for (std::uint32_t i = 0; i < at->size; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(buffer.counts[i]) * element) * 0x100000001b3;
    has_elements |= buffer.counts[i] > 0;
  }
  made.size = static_cast<std::int64_t>(hash >> 1);
  if (!has_elements || made.op == -1) return;  // others may have elements of other forms
  type_signature const signature = signature_of(rank, 1, buffer.type);
  if (signature.is_known) made.type = static_cast<std::int64_t>(signature.hash >> 1);
}

[[nodiscard]] QUARRY_SLOW checked_operation described(char const* name, MPI_Comm communicator,
                                                      collective_call const& call) {
  checked_operation made{.name = name};
  if (call.op != MPI_OP_NULL) made.op = call.op < first_user_op ? call.op : first_user_op;
  switch (call.what) {
    case operation::bcast:
    case operation::reduce:
      made.root = call.root;
      [[fallthrough]];
    case operation::allreduce:
    case operation::scan:
    case operation::exscan:
    case operation::reduce_scatter_block:
    case operation::allgather:
    case operation::alltoall:
      describe_buffer(made, call.received);
      break;
    case operation::reduce_scatter:
    case operation::allgatherv:
      describe_counts(made, communicator, call.received);
      break;
    case operation::gather:
      made.root = call.root;
      describe_buffer(made, call.sent.is_in_place() ? call.received : call.sent);
      break;
    case operation::scatter:
      made.root = call.root;
      describe_buffer(made, call.received.is_in_place() ? call.sent : call.received);
      break;
    case operation::gatherv:
    case operation::scatterv:
      made.root = call.root;
      break;
    default:
      break;
  }
  return made;
}

/// Whether a rank passes MPI_IN_PLACE where only the root may.
[[nodiscard]] QUARRY_HD bool is_wrongly_in_place(collective_call const& call, bool is_root) {
  switch (call.what) {
    case operation::gather:
    case operation::gatherv:
    case operation::reduce:
      return !is_root && call.sent.is_in_place();
    case operation::scatter:
    case operation::scatterv:
      return !is_root && call.received.is_in_place();
    default:
      return false;
  }
}

/// Whether the rank has a part for itself in both buffers. What it sends to itself it also gets.
[[nodiscard]] QUARRY_HD bool sends_to_itself(collective_call const& call, bool is_root) {
  if (call.sent.is_in_place() || call.received.is_in_place()) return false;
  switch (call.what) {
    case operation::gather:
    case operation::gatherv:
    case operation::scatter:
    case operation::scatterv:
      return is_root;
    case operation::allgather:
    case operation::allgatherv:
    case operation::alltoall:
    case operation::alltoallv:
    case operation::alltoallw:
      return true;
    default:
      return false;
  }
}

/// The rank's part for itself, as a buffer.
[[nodiscard]] QUARRY_HD part_buffer own_part(part_buffer const& of, std::uint32_t own) {
  return {.count = of.count_of(own), .type = of.type_of(own)};
}

/// Reports a call that no other rank's call can fit.
QUARRY_SLOW void check_own_buffers(char const* name, MPI_Comm communicator,
                                   collective_call const& call) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr || is_intercommunicator(*at)) return;
  bool const is_root = static_cast<std::int64_t>(at->rank) == call.root;
  report_line line;
  line << rank.rank << ": " << name;
  if (is_wrongly_in_place(call, is_root)) {
    line << " gets MPI_IN_PLACE from a rank that is not the root: ";
    return line.at(own_record().place).write(rank);
  }
  if (!sends_to_itself(call, is_root)) return;
  part_buffer const own_sent = own_part(call.sent, at->rank);
  part_buffer const own_received = own_part(call.received, at->rank);
  if (own_sent.count < 0 || own_received.count < 0 || !is_type(rank, own_sent.type) ||
      !is_type(rank, own_received.type))
    return;
  checked_operation sent, received;
  describe_buffer(sent, own_sent);
  describe_buffer(received, own_received);
  if (sent.size != received.size) {
    line << " sends " << sent.size << " bytes to its own rank, and receives " << received.size
         << " from it: ";
  } else if (sent.type != received.type && sent.type != -1 && received.type != -1) {
    line << " sends other types to its own rank than it receives from it: ";
  } else {
    return;
  }
  line.at(own_record().place).write(rank);
}

/// Compares the call with that of others, and its buffers with each other.
QUARRY_SLOW void check_made(char const* name, MPI_Comm communicator, collective_call const& call) {
  check_collective(communicator, described(name, communicator, call));
  check_own_buffers(name, communicator, call);
  check_lent_apart(communicator, call);
}

/// The same, and reports buffers that unfinished operations use.
QUARRY_SLOW void check_call(char const* name, MPI_Comm communicator, collective_call const& call) {
  check_made(name, communicator, call);
  check_lent(communicator, call);
}

/// After a call that has begun an operation, or made one that MPI_Start begins.
QUARRY_SLOW int note_call(int error, form how, MPI_Comm communicator, collective_call const& call,
                          MPI_Request* request) {
  if (how == form::persistent) {
    (void)note_persistent(error, request, begun_operation::collective);
  } else {
    (void)note_begun(error, request, begun_operation::collective);
  }
  if (error == MPI_SUCCESS) note_lent(communicator, call, *request);
  return error;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int quarry_check_MPI_Barrier(MPI_Comm communicator) {
  check_collective(communicator, {.name = "MPI_Barrier"});
  return MPI_Barrier(communicator);
}
QUARRY_HD int quarry_check_MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request) {
  check_collective(communicator, {.name = "MPI_Ibarrier"});
  return note_begun(MPI_Ibarrier(communicator, request), request, begun_operation::collective);
}
QUARRY_HD int quarry_check_MPI_Barrier_init(MPI_Comm communicator, MPI_Info info,
                                            MPI_Request* request) {
  check_collective(communicator, {.name = "MPI_Barrier_init"});
  return note_persistent(MPI_Barrier_init(communicator, info, request), request,
                         begun_operation::collective);
}

#define QUARRY_LIST(...) __VA_ARGS__
/// An operation that blocks, its nonblocking form and its persistent form. Persistent operations
/// are compared where they are made: ranks may start them in any order.
#define QUARRY_CHECKED(name, immediate, call, parameters, arguments)                          \
  QUARRY_HD int quarry_check_MPI_##name(QUARRY_LIST parameters, MPI_Comm communicator) {      \
    check_call("MPI_" #name, communicator, call arguments);                                   \
    return MPI_##name(QUARRY_LIST arguments, communicator);                                   \
  }                                                                                           \
  QUARRY_HD int quarry_check_MPI_##immediate(QUARRY_LIST parameters, MPI_Comm communicator,   \
                                             MPI_Request* request) {                          \
    check_call("MPI_" #immediate, communicator, call arguments);                              \
    return note_call(MPI_##immediate(QUARRY_LIST arguments, communicator, request),           \
                     form::nonblocking, communicator, call arguments, request);               \
  }                                                                                           \
  QUARRY_HD int quarry_check_MPI_##name##_init(QUARRY_LIST parameters, MPI_Comm communicator, \
                                               MPI_Info info, MPI_Request* request) {         \
    check_made("MPI_" #name "_init", communicator, call arguments);                           \
    return note_call(MPI_##name##_init(QUARRY_LIST arguments, communicator, info, request),   \
                     form::persistent, communicator, call arguments, request);                \
  }

QUARRY_CHECKED(Bcast, Ibcast, bcast_call, (void* data, int count, MPI_Datatype type, int root),
               (data, count, type, root))
QUARRY_CHECKED(Reduce, Ireduce, reduce_call,
               (void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                int root),
               (sent, received, count, type, op, root))
QUARRY_CHECKED(Allreduce, Iallreduce, allreduce_call,
               (void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op),
               (sent, received, count, type, op))
QUARRY_CHECKED(Scan, Iscan, scan_call,
               (void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op),
               (sent, received, count, type, op))
QUARRY_CHECKED(Exscan, Iexscan, exscan_call,
               (void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op),
               (sent, received, count, type, op))
QUARRY_CHECKED(Reduce_scatter_block, Ireduce_scatter_block, reduce_scatter_block_call,
               (void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op),
               (sent, received, count, type, op))
QUARRY_CHECKED(Reduce_scatter, Ireduce_scatter, reduce_scatter_call,
               (void const* sent, void* received, int const* counts, MPI_Datatype type, MPI_Op op),
               (sent, received, counts, type, op))
QUARRY_CHECKED(Gather, Igather, gather_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type, int root),
               (sent, sent_count, sent_type, received, received_count, received_type, root))
QUARRY_CHECKED(Gatherv, Igatherv, gatherv_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int const* received_counts, int const* displacements, MPI_Datatype received_type,
                int root),
               (sent, sent_count, sent_type, received, received_counts, displacements,
                received_type, root))
QUARRY_CHECKED(Scatter, Iscatter, scatter_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type, int root),
               (sent, sent_count, sent_type, received, received_count, received_type, root))
QUARRY_CHECKED(Scatterv, Iscatterv, scatterv_call,
               (void const* sent, int const* sent_counts, int const* displacements,
                MPI_Datatype sent_type, void* received, int received_count,
                MPI_Datatype received_type, int root),
               (sent, sent_counts, displacements, sent_type, received, received_count,
                received_type, root))
QUARRY_CHECKED(Allgather, Iallgather, allgather_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_count, received_type))
QUARRY_CHECKED(Allgatherv, Iallgatherv, allgatherv_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int const* received_counts, int const* displacements, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_counts, displacements,
                received_type))
QUARRY_CHECKED(Alltoall, Ialltoall, alltoall_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_count, received_type))
QUARRY_CHECKED(Alltoallv, Ialltoallv, alltoallv_call,
               (void const* sent, int const* sent_counts, int const* sent_displacements,
                MPI_Datatype sent_type, void* received, int const* received_counts,
                int const* received_displacements, MPI_Datatype received_type),
               (sent, sent_counts, sent_displacements, sent_type, received, received_counts,
                received_displacements, received_type))
QUARRY_CHECKED(Alltoallw, Ialltoallw, alltoallw_call,
               (void const* sent, int const* sent_counts, int const* sent_displacements,
                MPI_Datatype const* sent_types, void* received, int const* received_counts,
                int const* received_displacements, MPI_Datatype const* received_types),
               (sent, sent_counts, sent_displacements, sent_types, received, received_counts,
                received_displacements, received_types))
QUARRY_CHECKED(Neighbor_allgather, Ineighbor_allgather, neighbor_allgather_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_count, received_type))
QUARRY_CHECKED(Neighbor_allgatherv, Ineighbor_allgatherv, neighbor_allgatherv_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int const* received_counts, int const* displacements, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_counts, displacements,
                received_type))
QUARRY_CHECKED(Neighbor_alltoall, Ineighbor_alltoall, neighbor_alltoall_call,
               (void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type),
               (sent, sent_count, sent_type, received, received_count, received_type))
QUARRY_CHECKED(Neighbor_alltoallv, Ineighbor_alltoallv, neighbor_alltoallv_call,
               (void const* sent, int const* sent_counts, int const* sent_displacements,
                MPI_Datatype sent_type, void* received, int const* received_counts,
                int const* received_displacements, MPI_Datatype received_type),
               (sent, sent_counts, sent_displacements, sent_type, received, received_counts,
                received_displacements, received_type))
QUARRY_CHECKED(Neighbor_alltoallw, Ineighbor_alltoallw, neighbor_alltoallw_call,
               (void const* sent, int const* sent_counts, MPI_Aint const* sent_displacements,
                MPI_Datatype const* sent_types, void* received, int const* received_counts,
                MPI_Aint const* received_displacements, MPI_Datatype const* received_types),
               (sent, sent_counts, sent_displacements, sent_types, received, received_counts,
                received_displacements, received_types))

#undef QUARRY_CHECKED
#undef QUARRY_LIST

}  // extern "C"
