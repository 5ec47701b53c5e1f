// SPDX-License-Identifier: Apache-2.0
// Collective operations of neighbours in a topology.
#include "collective_calls.hpp"

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Neighbor_allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                                     void* received, int received_count, MPI_Datatype received_type,
                                     MPI_Comm communicator) {
  return run_scheduled(
      neighbor_allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::blocking, communicator, nullptr, "MPI_Neighbor_allgather");
}
QUARRY_HD int MPI_Ineighbor_allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                                      void* received, int received_count,
                                      MPI_Datatype received_type, MPI_Comm communicator,
                                      MPI_Request* request) {
  return run_scheduled(
      neighbor_allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::nonblocking, communicator, request, "MPI_Ineighbor_allgather");
}
QUARRY_HD int MPI_Neighbor_allgather_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                          void* received, int received_count,
                                          MPI_Datatype received_type, MPI_Comm communicator,
                                          MPI_Info, MPI_Request* request) {
  return run_scheduled(
      neighbor_allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::persistent, communicator, request, "MPI_Neighbor_allgather_init");
}
QUARRY_HD int MPI_Neighbor_allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                      void* received, int const* received_counts,
                                      int const* displacements, MPI_Datatype received_type,
                                      MPI_Comm communicator) {
  return run_scheduled(neighbor_allgatherv_call(sent, sent_count, sent_type, received,
                                                received_counts, displacements, received_type),
                       form::blocking, communicator, nullptr, "MPI_Neighbor_allgatherv");
}
QUARRY_HD int MPI_Ineighbor_allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                       void* received, int const* received_counts,
                                       int const* displacements, MPI_Datatype received_type,
                                       MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(neighbor_allgatherv_call(sent, sent_count, sent_type, received,
                                                received_counts, displacements, received_type),
                       form::nonblocking, communicator, request, "MPI_Ineighbor_allgatherv");
}
QUARRY_HD int MPI_Neighbor_allgatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                           void* received, int const* received_counts,
                                           int const* displacements, MPI_Datatype received_type,
                                           MPI_Comm communicator, MPI_Info, MPI_Request* request) {
  return run_scheduled(neighbor_allgatherv_call(sent, sent_count, sent_type, received,
                                                received_counts, displacements, received_type),
                       form::persistent, communicator, request, "MPI_Neighbor_allgatherv_init");
}
QUARRY_HD int MPI_Neighbor_alltoall(void const* sent, int sent_count, MPI_Datatype sent_type,
                                    void* received, int received_count, MPI_Datatype received_type,
                                    MPI_Comm communicator) {
  return run_scheduled(
      neighbor_alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::blocking, communicator, nullptr, "MPI_Neighbor_alltoall");
}
QUARRY_HD int MPI_Ineighbor_alltoall(void const* sent, int sent_count, MPI_Datatype sent_type,
                                     void* received, int received_count, MPI_Datatype received_type,
                                     MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::nonblocking, communicator, request, "MPI_Ineighbor_alltoall");
}
QUARRY_HD int MPI_Neighbor_alltoall_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                         void* received, int received_count,
                                         MPI_Datatype received_type, MPI_Comm communicator,
                                         MPI_Info, MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
      form::persistent, communicator, request, "MPI_Neighbor_alltoall_init");
}
QUARRY_HD int MPI_Neighbor_alltoallv(void const* sent, int const* sent_counts,
                                     int const* sent_displacements, MPI_Datatype sent_type,
                                     void* received, int const* received_counts,
                                     int const* received_displacements, MPI_Datatype received_type,
                                     MPI_Comm communicator) {
  return run_scheduled(
      neighbor_alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                              received_counts, received_displacements, received_type),
      form::blocking, communicator, nullptr, "MPI_Neighbor_alltoallv");
}
QUARRY_HD int MPI_Ineighbor_alltoallv(void const* sent, int const* sent_counts,
                                      int const* sent_displacements, MPI_Datatype sent_type,
                                      void* received, int const* received_counts,
                                      int const* received_displacements, MPI_Datatype received_type,
                                      MPI_Comm communicator, MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                              received_counts, received_displacements, received_type),
      form::nonblocking, communicator, request, "MPI_Ineighbor_alltoallv");
}
QUARRY_HD int MPI_Neighbor_alltoallv_init(void const* sent, int const* sent_counts,
                                          int const* sent_displacements, MPI_Datatype sent_type,
                                          void* received, int const* received_counts,
                                          int const* received_displacements,
                                          MPI_Datatype received_type, MPI_Comm communicator,
                                          MPI_Info, MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                              received_counts, received_displacements, received_type),
      form::persistent, communicator, request, "MPI_Neighbor_alltoallv_init");
}
QUARRY_HD int MPI_Neighbor_alltoallw(void const* sent, int const* sent_counts,
                                     MPI_Aint const* sent_displacements,
                                     MPI_Datatype const* sent_types, void* received,
                                     int const* received_counts,
                                     MPI_Aint const* received_displacements,
                                     MPI_Datatype const* received_types, MPI_Comm communicator) {
  return run_scheduled(
      neighbor_alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                              received_counts, received_displacements, received_types),
      form::blocking, communicator, nullptr, "MPI_Neighbor_alltoallw");
}
QUARRY_HD int MPI_Ineighbor_alltoallw(void const* sent, int const* sent_counts,
                                      MPI_Aint const* sent_displacements,
                                      MPI_Datatype const* sent_types, void* received,
                                      int const* received_counts,
                                      MPI_Aint const* received_displacements,
                                      MPI_Datatype const* received_types, MPI_Comm communicator,
                                      MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                              received_counts, received_displacements, received_types),
      form::nonblocking, communicator, request, "MPI_Ineighbor_alltoallw");
}
QUARRY_HD int MPI_Neighbor_alltoallw_init(void const* sent, int const* sent_counts,
                                          MPI_Aint const* sent_displacements,
                                          MPI_Datatype const* sent_types, void* received,
                                          int const* received_counts,
                                          MPI_Aint const* received_displacements,
                                          MPI_Datatype const* received_types, MPI_Comm communicator,
                                          MPI_Info, MPI_Request* request) {
  return run_scheduled(
      neighbor_alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                              received_counts, received_displacements, received_types),
      form::persistent, communicator, request, "MPI_Neighbor_alltoallw_init");
}
}  // extern "C"
