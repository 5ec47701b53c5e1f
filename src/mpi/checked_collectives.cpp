// SPDX-License-Identifier: Apache-2.0
// MPI's collective operations in programs that quarry-mpicc --check made.
#include "checks.hpp"
#include "collective_calls.hpp"
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

[[nodiscard]] QUARRY_SLOW checked_operation described(char const* name,
                                                      collective_call const& call) {
  checked_operation made{.name = name};
  if (call.op != MPI_OP_NULL && call.op < first_user_op) made.op = call.op;
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

/// What the caller of an operation lends it: the bytes that it reads, and those that it writes.
struct lent_buffers {
  checked_buffer read{nullptr, 0, MPI_BYTE};
  checked_buffer written{nullptr, 0, MPI_BYTE};
};

/// `parts` parts of a buffer with parts of one size.
[[nodiscard]] QUARRY_HD checked_buffer parts_of(part_buffer const& buffer, std::uint32_t parts) {
  std::int64_t const count = static_cast<std::int64_t>(buffer.count) * parts;
  return {buffer.data, count > 0x7fffffff ? 0 : static_cast<int>(count), buffer.type};
}

/// Operations whose parts have sizes of their own, or neighbours, or two groups lend nothing that
/// is checked.
[[nodiscard]] QUARRY_SLOW lent_buffers lent_by(MPI_Comm communicator, collective_call const& call) {
  membership const* const at = member(self(), communicator);
  if (at == nullptr || is_intercommunicator(*at)) return {};
  std::uint32_t const ranks = at->size;
  bool const is_root = at->rank == static_cast<std::uint32_t>(call.root);
  std::uint32_t parts_read = 1;  // parts
  std::uint32_t parts_written = 1;
  switch (call.what) {
    case operation::bcast:
      if (is_root) return {parts_of(call.received, 1), {nullptr, 0, MPI_BYTE}};
      return {{nullptr, 0, MPI_BYTE}, parts_of(call.received, 1)};
    case operation::allreduce:
    case operation::scan:
    case operation::exscan:
      break;
    case operation::reduce:
      parts_written = is_root ? 1 : 0;
      break;
    case operation::reduce_scatter_block:
      parts_read = ranks;
      if (call.sent.is_in_place()) parts_written = ranks;
      break;
    case operation::gather:
      parts_written = is_root ? ranks : 0;
      break;
    case operation::scatter:
      parts_read = is_root ? ranks : 0;
      break;
    case operation::allgather:
      parts_written = ranks;
      break;
    case operation::alltoall:
      parts_read = parts_written = ranks;
      break;
    default:
      return {};
  }
  if (call.sent.is_in_place()) parts_read = 0;
  if (call.received.is_in_place()) parts_written = 0;
  return {parts_of(call.sent, parts_read), parts_of(call.received, parts_written)};
}

/// Compares the call with that of others, and reports buffers that unfinished operations use.
QUARRY_SLOW lent_buffers check_call(char const* name, MPI_Comm communicator,
                                    collective_call const& call) {
  check_collective(communicator, described(name, call));
  lent_buffers const lent = lent_by(communicator, call);
  check_buffer(lent.read, false);
  check_buffer(lent.written, true);
  return lent;
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
  return MPI_Barrier_init(communicator, info, request);
}

#define QUARRY_LIST(...) __VA_ARGS__
/// An operation that blocks, its nonblocking form and its persistent form. Persistent operations
/// are compared where they are made: ranks may start them in any order.
#define QUARRY_CHECKED(name, immediate, call, parameters, arguments)                          \
  QUARRY_HD int quarry_check_MPI_##name(QUARRY_LIST parameters, MPI_Comm communicator) {      \
    (void)check_call("MPI_" #name, communicator, call arguments);                             \
    return MPI_##name(QUARRY_LIST arguments, communicator);                                   \
  }                                                                                           \
  QUARRY_HD int quarry_check_MPI_##immediate(QUARRY_LIST parameters, MPI_Comm communicator,   \
                                             MPI_Request* request) {                          \
    lent_buffers const lent = check_call("MPI_" #immediate, communicator, call arguments);    \
    return note_both(MPI_##immediate(QUARRY_LIST arguments, communicator, request), request,  \
                     begun_operation::collective, lent.read, lent.written);                   \
  }                                                                                           \
  QUARRY_HD int quarry_check_MPI_##name##_init(QUARRY_LIST parameters, MPI_Comm communicator, \
                                               MPI_Info info, MPI_Request* request) {         \
    check_collective(communicator, described("MPI_" #name "_init", call arguments));          \
    return MPI_##name##_init(QUARRY_LIST arguments, communicator, info, request);             \
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
