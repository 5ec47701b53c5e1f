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
int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op);
int MPI_Op_free(MPI_Op* op);

#ifdef __cplusplus
}
#endif
#endif
