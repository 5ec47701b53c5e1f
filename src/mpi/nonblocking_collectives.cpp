// SPDX-License-Identifier: Apache-2.0
// Collective operations that end in MPI_Wait.
#include "collective_calls.hpp"

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(barrier_call(), form::nonblocking, communicator, request, "MPI_Ibarrier");
}

QUARRY_HD int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator,
                         MPI_Request* request) {
  return run_scheduled(bcast_call(data, count, type, root), form::nonblocking, communicator,
                       request, "MPI_Ibcast");
}

QUARRY_HD int MPI_Ireduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                          int root, MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(reduce_call(sent, received, count, type, op, root), form::nonblocking,
                       communicator, request, "MPI_Ireduce");
}

QUARRY_HD int MPI_Iallreduce(void const* sent, void* received, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(allreduce_call(sent, received, count, type, op), form::nonblocking,
                       communicator, request, "MPI_Iallreduce");
}

QUARRY_HD int MPI_Igather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int received_count, MPI_Datatype received_type, int root,
                          MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      gather_call(sent, sent_count, sent_type, received, received_count, received_type, root),
      form::nonblocking, communicator, request, "MPI_Igather");
}

QUARRY_HD int MPI_Igatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int const* received_counts, int const* displacements,
                           MPI_Datatype received_type, int root, MPI_Comm communicator,
                           MPI_Request* request) {
  return run_scheduled(gatherv_call(sent, sent_count, sent_type, received, received_counts,
                                    displacements, received_type, root),
                       form::nonblocking, communicator, request, "MPI_Igatherv");
}

QUARRY_HD int MPI_Iscatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, int root,
                           MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      scatter_call(sent, sent_count, sent_type, received, received_count, received_type, root),
      form::nonblocking, communicator, request, "MPI_Iscatter");
}

QUARRY_HD int MPI_Iscatterv(void const* sent, int const* sent_counts, int const* displacements,
                            MPI_Datatype sent_type, void* received, int received_count,
                            MPI_Datatype received_type, int root, MPI_Comm communicator,
                            MPI_Request* request) {
  return run_scheduled(scatterv_call(sent, sent_counts, displacements, sent_type, received,
                                     received_count, received_type, root),
                       form::nonblocking, communicator, request, "MPI_Iscatterv");
}

QUARRY_HD int MPI_Iallgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                             void* received, int received_count, MPI_Datatype received_type,
                             MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::nonblocking, communicator, request, "MPI_Iallgather");
}

QUARRY_HD int MPI_Iallgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                              void* received, int const* received_counts, int const* displacements,
                              MPI_Datatype received_type, MPI_Comm communicator,
                              MPI_Request* request) {
  return run_scheduled(allgatherv_call(sent, sent_count, sent_type, received, received_counts,
                                       displacements, received_type),
                       form::nonblocking, communicator, request, "MPI_Iallgatherv");
}

QUARRY_HD int MPI_Ialltoall(void const* sent, int sent_count, MPI_Datatype sent_type,
                            void* received, int received_count, MPI_Datatype received_type,
                            MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::nonblocking, communicator, request, "MPI_Ialltoall");
}

QUARRY_HD int MPI_Ialltoallv(void const* sent, int const* sent_counts,
                             int const* sent_displacements, MPI_Datatype sent_type, void* received,
                             int const* received_counts, int const* received_displacements,
                             MPI_Datatype received_type, MPI_Comm communicator,
                             MPI_Request* request) {
  return run_scheduled(alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                                      received_counts, received_displacements, received_type),
                       form::nonblocking, communicator, request, "MPI_Ialltoallv");
}

QUARRY_HD int MPI_Ialltoallw(void const* sent, int const* sent_counts,
                             int const* sent_displacements, MPI_Datatype const* sent_types,
                             void* received, int const* received_counts,
                             int const* received_displacements, MPI_Datatype const* received_types,
                             MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                                      received_counts, received_displacements, received_types),
                       form::nonblocking, communicator, request, "MPI_Ialltoallw");
}

QUARRY_HD int MPI_Ireduce_scatter(void const* sent, void* received, int const* counts,
                                  MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                                  MPI_Request* request) {
  return run_scheduled(reduce_scatter_call(sent, received, counts, type, op), form::nonblocking,
                       communicator, request, "MPI_Ireduce_scatter");
}

QUARRY_HD int MPI_Ireduce_scatter_block(void const* sent, void* received, int count,
                                        MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                                        MPI_Request* request) {
  return run_scheduled(reduce_scatter_block_call(sent, received, count, type, op),
                       form::nonblocking, communicator, request, "MPI_Ireduce_scatter_block");
}

QUARRY_HD int MPI_Iscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(scan_call(sent, received, count, type, op), form::nonblocking, communicator,
                       request, "MPI_Iscan");
}

QUARRY_HD int MPI_Iexscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(exscan_call(sent, received, count, type, op), form::nonblocking,
                       communicator, request, "MPI_Iexscan");
}

}  // extern "C"
