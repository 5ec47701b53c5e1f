/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in all ways, between ranks of the world and of its halves. Prints how many were sent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long sent, bytes;

static void note(int count) {
  ++sent;
  bytes += count * (long)sizeof(int);
}

int main(int argc, char** argv) {
  int rank, size, flag = 0;
  int out[8] = {0}, in[8];
  MPI_Request requests[2];
  MPI_Status status;
  MPI_Message message;
  MPI_Comm half;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int half_rank, half_size;
  MPI_Comm_rank(half, &half_rank);
  MPI_Comm_size(half, &half_size);
  srand(7);
  for (int round = 0; round < atoi(argv[1]); ++round) {
    int const distance = rand() % size, count = rand() % 8 + 1, way = rand() % 8;
    int const to = (rank + distance) % size, from = (rank + size - distance) % size;
    note(count);
    if (way == 0) {
      MPI_Irecv(in, 8, MPI_INT, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, count, MPI_INT, to, round, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (way == 1) {
      MPI_Sendrecv(out, count, MPI_INT, to, round, in, 8, MPI_INT, from, round, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    } else if (way == 2) {
      MPI_Irecv(in, 8, MPI_INT, from, round, MPI_COMM_WORLD, &requests[0]);
      MPI_Send(out, count, MPI_INT, to, round, MPI_COMM_WORLD);
      do MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
      while (!flag);
    } else if (way == 3) {
      MPI_Isend(out, count, MPI_INT, to, round, MPI_COMM_WORLD, &requests[0]);
      MPI_Probe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &status);
      MPI_Recv(in, 8, MPI_INT, status.MPI_SOURCE, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else if (way == 4) {
      MPI_Isend(out, count, MPI_INT, to, round, MPI_COMM_WORLD, &requests[0]);
      MPI_Mprobe(from, round, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
      MPI_Mrecv(in, 8, MPI_INT, &message, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else if (way == 5) {
      MPI_Isend(out, count, MPI_INT, to, round, MPI_COMM_WORLD, &requests[0]);
      do MPI_Improbe(MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
      while (!flag);
      MPI_Imrecv(in, 8, MPI_INT, &message, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (way == 6) {
      MPI_Isendrecv(out, count, MPI_INT, to, round, in, 8, MPI_INT, from, round, MPI_COMM_WORLD,
                    &requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
      MPI_Irecv(in, 8, MPI_INT, from, round, MPI_COMM_WORLD, &requests[0]);
      MPI_Cancel(&requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      MPI_Barrier(MPI_COMM_WORLD); /* nobody has sent before */
      MPI_Isendrecv_replace(out, count, MPI_INT, to, round, from, round, MPI_COMM_WORLD,
                            &requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    note(1);
    MPI_Sendrecv(out, 1, MPI_INT, (half_rank + 1) % half_size, 1, in, 1, MPI_INT,
                 (half_rank + half_size - 1) % half_size, 1, half, MPI_STATUS_IGNORE);
  }
  MPI_Send(out, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  long own[2] = {sent, bytes}, all[2];
  MPI_Reduce(own, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%ld %ld\n", all[0], all[1]);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
