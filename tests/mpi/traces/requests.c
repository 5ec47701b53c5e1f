/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent requests, collective operations that begin and end apart, and calls through pointers. */
#include <mpi.h>

static int (*const ways[])(void const*, int, MPI_Datatype, int, int, MPI_Comm) = {MPI_Send,
                                                                                  MPI_Ssend};

int main(int argc, char** argv) {
  int rank, size, out = 0, in = 0, index, sum;
  MPI_Request requests[2], messages[2], barrier, reduction;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Bcast_init(&in, 1, MPI_INT, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &messages[0]);
  MPI_Ssend_init(&out, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &messages[1]);
  for (int i = 0; i < 3; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1 - index], MPI_STATUS_IGNORE);
    for (int k = 0; k < 2; ++k) MPI_Start(&messages[k]);
    MPI_Waitall(2, messages, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  for (int i = 0; i < 2; ++i) MPI_Request_free(&messages[i]);
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &reduction);
  MPI_Wait(&reduction, MPI_STATUS_IGNORE);
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  if (rank == 0) ways[argc - 1](&rank, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(&in, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return sum != size * (size - 1) / 2;
}
