/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, groups, topologies, attributes and information. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_COMMUNICATORS_H
#define QUARRY_MPI_MPI_COMMUNICATORS_H

#ifdef __cplusplus
extern "C" {
#endif

int MPI_Comm_rank(MPI_Comm communicator, int* rank);
int MPI_Comm_size(MPI_Comm communicator, int* size);
int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* copy);
int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* part);
int MPI_Comm_free(MPI_Comm* communicator);
int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int* result);

#ifdef __cplusplus
}
#endif
#endif
