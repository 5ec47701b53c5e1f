/* SPDX-License-Identifier: Apache-2.0 */
/* Collective operations and their reductions. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_COLLECTIVES_H
#define QUARRY_MPI_MPI_COLLECTIVES_H

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_MAX 1
#define MPI_MIN 2
#define MPI_SUM 3
#define MPI_PROD 4
#define MPI_LAND 5
#define MPI_BAND 6
#define MPI_LOR 7
#define MPI_BOR 8
#define MPI_LXOR 9
#define MPI_BXOR 10
#define MPI_MINLOC 11
#define MPI_MAXLOC 12
#define MPI_REPLACE 13
#define MPI_NO_OP 14

int MPI_Barrier(MPI_Comm communicator);
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator);
int MPI_Reduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm communicator);
int MPI_Allreduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm communicator);
int MPI_Scan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm communicator);
int MPI_Exscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm communicator);
int MPI_Gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
               int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Gatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int const* received_counts, int const* displacements, MPI_Datatype received_type,
                int root, MPI_Comm communicator);
int MPI_Scatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Scatterv(void const* sent, int const* sent_counts, int const* displacements,
                 MPI_Datatype sent_type, void* received, int received_count,
                 MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Allgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                  int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                   int const* received_counts, int const* displacements, MPI_Datatype received_type,
                   MPI_Comm communicator);
int MPI_Alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                 int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                  MPI_Datatype sent_type, void* received, int const* received_counts,
                  int const* received_displacements, MPI_Datatype received_type,
                  MPI_Comm communicator);
int MPI_Alltoallw(void const* sent, int const* sent_counts, int const* sent_displacements,
                  MPI_Datatype const* sent_types, void* received, int const* received_counts,
                  int const* received_displacements, MPI_Datatype const* received_types,
                  MPI_Comm communicator);
int MPI_Reduce_scatter(void const* sent, void* received, int const* counts, MPI_Datatype type,
                       MPI_Op op, MPI_Comm communicator);
int MPI_Reduce_scatter_block(void const* sent, void* received, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm communicator);
int MPI_Reduce_local(void const* input, void* in_out, int count, MPI_Datatype type, MPI_Op op);
int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op);
int MPI_Op_free(MPI_Op* op);
int MPI_Op_commutative(MPI_Op op, int* commutes);

/* MPI_Wait ends these. */
int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request);
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator,
               MPI_Request* request);
int MPI_Ireduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm communicator, MPI_Request* request);
int MPI_Iallreduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Igather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator,
                MPI_Request* request);
int MPI_Igatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                 int const* received_counts, int const* displacements, MPI_Datatype received_type,
                 int root, MPI_Comm communicator, MPI_Request* request);
int MPI_Iscatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                 int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator,
                 MPI_Request* request);
int MPI_Iscatterv(void const* sent, int const* sent_counts, int const* displacements,
                  MPI_Datatype sent_type, void* received, int received_count,
                  MPI_Datatype received_type, int root, MPI_Comm communicator,
                  MPI_Request* request);
int MPI_Iallgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                   int received_count, MPI_Datatype received_type, MPI_Comm communicator,
                   MPI_Request* request);
int MPI_Iallgatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                    int const* received_counts, int const* displacements,
                    MPI_Datatype received_type, MPI_Comm communicator, MPI_Request* request);
int MPI_Ialltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                  int received_count, MPI_Datatype received_type, MPI_Comm communicator,
                  MPI_Request* request);
int MPI_Ialltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                   MPI_Datatype sent_type, void* received, int const* received_counts,
                   int const* received_displacements, MPI_Datatype received_type,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Ialltoallw(void const* sent, int const* sent_counts, int const* sent_displacements,
                   MPI_Datatype const* sent_types, void* received, int const* received_counts,
                   int const* received_displacements, MPI_Datatype const* received_types,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Ireduce_scatter(void const* sent, void* received, int const* counts, MPI_Datatype type,
                        MPI_Op op, MPI_Comm communicator, MPI_Request* request);
int MPI_Ireduce_scatter_block(void const* sent, void* received, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm communicator, MPI_Request* request);
int MPI_Iscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
              MPI_Comm communicator, MPI_Request* request);
int MPI_Iexscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                MPI_Comm communicator, MPI_Request* request);

/* MPI_Start begins these. */
int MPI_Barrier_init(MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Bcast_init(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator,
                   MPI_Info info, MPI_Request* request);
int MPI_Reduce_init(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                    int root, MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Allreduce_init(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Gather_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                    int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator,
                    MPI_Info info, MPI_Request* request);
int MPI_Gatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                     int const* received_counts, int const* displacements,
                     MPI_Datatype received_type, int root, MPI_Comm communicator, MPI_Info info,
                     MPI_Request* request);
int MPI_Scatter_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                     int received_count, MPI_Datatype received_type, int root,
                     MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Scatterv_init(void const* sent, int const* sent_counts, int const* displacements,
                      MPI_Datatype sent_type, void* received, int received_count,
                      MPI_Datatype received_type, int root, MPI_Comm communicator, MPI_Info info,
                      MPI_Request* request);
int MPI_Allgather_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                       int received_count, MPI_Datatype received_type, MPI_Comm communicator,
                       MPI_Info info, MPI_Request* request);
int MPI_Allgatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                        int const* received_counts, int const* displacements,
                        MPI_Datatype received_type, MPI_Comm communicator, MPI_Info info,
                        MPI_Request* request);
int MPI_Alltoall_init(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                      int received_count, MPI_Datatype received_type, MPI_Comm communicator,
                      MPI_Info info, MPI_Request* request);
int MPI_Alltoallv_init(void const* sent, int const* sent_counts, int const* sent_displacements,
                       MPI_Datatype sent_type, void* received, int const* received_counts,
                       int const* received_displacements, MPI_Datatype received_type,
                       MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Alltoallw_init(void const* sent, int const* sent_counts, int const* sent_displacements,
                       MPI_Datatype const* sent_types, void* received, int const* received_counts,
                       int const* received_displacements, MPI_Datatype const* received_types,
                       MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Reduce_scatter_init(void const* sent, void* received, int const* counts, MPI_Datatype type,
                            MPI_Op op, MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Reduce_scatter_block_init(void const* sent, void* received, int count, MPI_Datatype type,
                                  MPI_Op op, MPI_Comm communicator, MPI_Info info,
                                  MPI_Request* request);
int MPI_Scan_init(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Exscan_init(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm communicator, MPI_Info info, MPI_Request* request);

/* Among the neighbours in a communicator's topology. */
int MPI_Neighbor_allgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Ineighbor_allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                            void* received, int received_count, MPI_Datatype received_type,
                            MPI_Comm communicator, MPI_Request* request);
int MPI_Neighbor_allgather_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                void* received, int received_count, MPI_Datatype received_type,
                                MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Neighbor_allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                            void* received, int const* received_counts, int const* displacements,
                            MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Ineighbor_allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                             void* received, int const* received_counts, int const* displacements,
                             MPI_Datatype received_type, MPI_Comm communicator,
                             MPI_Request* request);
int MPI_Neighbor_allgatherv_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                                 void* received, int const* received_counts,
                                 int const* displacements, MPI_Datatype received_type,
                                 MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Neighbor_alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Ineighbor_alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, MPI_Comm communicator,
                           MPI_Request* request);
int MPI_Neighbor_alltoall_init(void const* sent, int sent_count, MPI_Datatype sent_type,
                               void* received, int received_count, MPI_Datatype received_type,
                               MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Neighbor_alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                           MPI_Datatype sent_type, void* received, int const* received_counts,
                           int const* received_displacements, MPI_Datatype received_type,
                           MPI_Comm communicator);
int MPI_Ineighbor_alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                            MPI_Datatype sent_type, void* received, int const* received_counts,
                            int const* received_displacements, MPI_Datatype received_type,
                            MPI_Comm communicator, MPI_Request* request);
int MPI_Neighbor_alltoallv_init(void const* sent, int const* sent_counts,
                                int const* sent_displacements, MPI_Datatype sent_type,
                                void* received, int const* received_counts,
                                int const* received_displacements, MPI_Datatype received_type,
                                MPI_Comm communicator, MPI_Info info, MPI_Request* request);
int MPI_Neighbor_alltoallw(void const* sent, int const* sent_counts,
                           MPI_Aint const* sent_displacements, MPI_Datatype const* sent_types,
                           void* received, int const* received_counts,
                           MPI_Aint const* received_displacements,
                           MPI_Datatype const* received_types, MPI_Comm communicator);
int MPI_Ineighbor_alltoallw(void const* sent, int const* sent_counts,
                            MPI_Aint const* sent_displacements, MPI_Datatype const* sent_types,
                            void* received, int const* received_counts,
                            MPI_Aint const* received_displacements,
                            MPI_Datatype const* received_types, MPI_Comm communicator,
                            MPI_Request* request);
int MPI_Neighbor_alltoallw_init(void const* sent, int const* sent_counts,
                                MPI_Aint const* sent_displacements, MPI_Datatype const* sent_types,
                                void* received, int const* received_counts,
                                MPI_Aint const* received_displacements,
                                MPI_Datatype const* received_types, MPI_Comm communicator,
                                MPI_Info info, MPI_Request* request);

#ifdef __cplusplus
}
#endif
#endif
