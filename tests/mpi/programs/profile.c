// SPDX-License-Identifier: Apache-2.0
// A program that counts its messages by MPI's interface for profiling.
#include <mpi.h>
#include <stdio.h>

enum { kinds = 4, sends = 0, receives, reductions, waits };

static int calls[kinds], bytes_sent;
static double seconds;

static void count_bytes(int count, MPI_Datatype type) {
  int size;
  MPI_Type_size(type, &size);  // not replaced
  bytes_sent += count * size;
}

int MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm all) {
  double const begin = PMPI_Wtime();
  int const error = PMPI_Send(data, count, type, to, tag, all);
  seconds += PMPI_Wtime() - begin;
  ++calls[sends];
  count_bytes(count, type);
  return error;
}

int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm all,
              MPI_Request* request) {
  ++calls[sends];
  count_bytes(count, type);
  return PMPI_Isend(data, count, type, to, tag, all, request);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm all,
             MPI_Status* status) {
  ++calls[receives];
  return PMPI_Recv(data, count, type, from, tag + 1000, all, status);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++calls[waits];
  return PMPI_Wait(request, status);
}

int MPI_Allreduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm all) {
  ++calls[reductions];
  int const error = PMPI_Reduce(sent, received, count, type, op, 0, all);
  return error != MPI_SUCCESS ? error : PMPI_Bcast(received, count, type, 0, all);
}

int MPI_Finalize(void) {
  int rank, total[kinds];
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d sent %d bytes in %d messages, received %d, waited %d times\n", rank, bytes_sent,
         calls[sends], calls[receives], calls[waits]);
  PMPI_Reduce(calls, total, kinds, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("in all %d messages and %d reductions, a time %s\n", total[sends], total[reductions],
           seconds >= 0.0 ? "of 0 or more" : "below 0");
  return PMPI_Finalize();
}

typedef int (*receiver)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);

int main(int argc, char** argv) {
  int rank, size, got = -1, sum = 0;
  MPI_Request request;
  receiver const receive = argc > 1 ? PMPI_Recv : MPI_Recv;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const next = (rank + 1) % size, last = (rank + size - 1) % size;
  for (int round = 0; round <= rank; ++round) {
    double const numbers[2] = {rank, round};
    if (round % 2 == 0) {
      MPI_Isend(numbers, 1 + round % 2, MPI_DOUBLE, next, 1007, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(numbers, 2, MPI_DOUBLE, next, 1007, MPI_COMM_WORLD);
    }
  }
  double numbers[2] = {-1.0, -1.0};
  for (int round = 0; round <= last; ++round)
    receive(numbers, 2, MPI_DOUBLE, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  got = (int)numbers[0];
  MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d got %d, the sum is %d\n", rank, got, sum);
  MPI_Finalize();
  return 0;
}
