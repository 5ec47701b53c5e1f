// SPDX-License-Identifier: Apache-2.0
// Collective operations that MPI_Start begins, as often as the program likes.
#include "collective_calls.hpp"

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Barrier_init(MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(barrier_call(), form::persistent, communicator, request, "MPI_Barrier_init");
}

QUARRY_HD int MPI_Bcast_init(void* data, int count, MPI_Datatype type, int root,
                             MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(bcast_call(data, count, type, root), form::persistent, communicator, request,
                       "MPI_Bcast_init");
}

QUARRY_HD int MPI_Reduce_init(void const* sent, void* received, int count, MPI_Datatype type,
                              MPI_Op op, int root, MPI_Comm communicator, MPI_Info,
                              MPI_Request* request) {
  return run_scheduled(reduce_call(sent, received, count, type, op, root), form::persistent,
                       communicator, request, "MPI_Reduce_init");
}

QUARRY_HD int MPI_Allreduce_init(void const* sent, void* received, int count, MPI_Datatype type,
                                 MPI_Op op, MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(allreduce_call(sent, received, count, type, op), form::persistent,
                       communicator, request, "MPI_Allreduce_init");
}

QUARRY_HD int MPI_Gather_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                              void* received, int received_count, MPI_Datatype received_type,
                              int root, MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(
      gather_call(sent, sent_count, sent_type, received, received_count, received_type, root),
      form::persistent, communicator, request, "MPI_Gather_init");
}

QUARRY_HD int MPI_Gatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                               void* received, int const* received_counts, int const* displacements,
                               MPI_Datatype received_type, int root, MPI_Comm communicator,
                               MPI_Info, MPI_Request* request) {
  return run_scheduled(gatherv_call(sent, sent_count, sent_type, received, received_counts,
                                    displacements, received_type, root),
                       form::persistent, communicator, request, "MPI_Gatherv_init");
}

QUARRY_HD int MPI_Scatter_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                               void* received, int received_count, MPI_Datatype received_type,
                               int root, MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(
      scatter_call(sent, sent_count, sent_type, received, received_count, received_type, root),
      form::persistent, communicator, request, "MPI_Scatter_init");
}

QUARRY_HD int MPI_Scatterv_init(void const* sent, int const* sent_counts, int const* displacements,
                                MPI_Datatype sent_type, void* received, int received_count,
                                MPI_Datatype received_type, int root, MPI_Comm communicator,
                                MPI_Info, MPI_Request* request) {
  return run_scheduled(scatterv_call(sent, sent_counts, displacements, sent_type, received,
                                     received_count, received_type, root),
                       form::persistent, communicator, request, "MPI_Scatterv_init");
}

QUARRY_HD int MPI_Allgather_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                 void* received, int received_count, MPI_Datatype received_type,
                                 MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(
      allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::persistent, communicator, request, "MPI_Allgather_init");
}

QUARRY_HD int MPI_Allgatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                  void* received, int const* received_counts,
                                  int const* displacements, MPI_Datatype received_type,
                                  MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(allgatherv_call(sent, sent_count, sent_type, received, received_counts,
                                       displacements, received_type),
                       form::persistent, communicator, request, "MPI_Allgatherv_init");
}

QUARRY_HD int MPI_Alltoall_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                void* received, int received_count, MPI_Datatype received_type,
                                MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(
      alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::persistent, communicator, request, "MPI_Alltoall_init");
}

QUARRY_HD int MPI_Alltoallv_init(void const* sent, int const* sent_counts,
                                 int const* sent_displacements, MPI_Datatype sent_type,
                                 void* received, int const* received_counts,
                                 int const* received_displacements, MPI_Datatype received_type,
                                 MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                                      received_counts, received_displacements, received_type),
                       form::persistent, communicator, request, "MPI_Alltoallv_init");
}

QUARRY_HD int MPI_Alltoallw_init(void const* sent, int const* sent_counts,
                                 int const* sent_displacements, MPI_Datatype const* sent_types,
                                 void* received, int const* received_counts,
                                 int const* received_displacements,
                                 MPI_Datatype const* received_types, MPI_Comm communicator,
                                 MPI_Info, MPI_Request* request) {
  return run_scheduled(alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                                      received_counts, received_displacements, received_types),
                       form::persistent, communicator, request, "MPI_Alltoallw_init");
}

QUARRY_HD int MPI_Reduce_scatter_init(void const* sent, void* received, int const* counts,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm communicator, MPI_Info,
                                      MPI_Request* request) {
  return run_scheduled(reduce_scatter_call(sent, received, counts, type, op), form::persistent,
                       communicator, request, "MPI_Reduce_scatter_init");
}

QUARRY_HD int MPI_Reduce_scatter_block_init(void const* sent, void* received, int count,
                                            MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                                            MPI_Info, MPI_Request* request) {
  return run_scheduled(reduce_scatter_block_call(sent, received, count, type, op), form::persistent,
                       communicator, request, "MPI_Reduce_scatter_block_init");
}

QUARRY_HD int MPI_Scan_init(void const* sent, void* received, int count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(scan_call(sent, received, count, type, op), form::persistent, communicator,
                       request, "MPI_Scan_init");
}

QUARRY_HD int MPI_Exscan_init(void const* sent, void* received, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(exscan_call(sent, received, count, type, op), form::persistent, communicator,
                       request, "MPI_Exscan_init");
}

}  // extern "C"
