// SPDX-License-Identifier: Apache-2.0
// A ring of cells that settle to the mean of their neighbours. The argument adds a fault:
//   leave    a rank returns from main before the others have finished
//   order    the result depends on which of two messages arrives first
//   buffer   a rank changes what it is sending
//   slow     a rank has more work than the others
// docs/guide/mpi_debugging.md shows how to find each.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { steps = 40 };

static int rank, size, step;
static char const* fault = "none";

static int has(char const* name, int which) { return strcmp(fault, name) == 0 && rank == which; }

static double work(double value, int rounds) {
  for (int i = 0; i < rounds; ++i) value += 1e-9 * (value - i % 3);
  return value;
}

static double exchange(double own) {
  int const left = (rank + size - 1) % size, right = (rank + 1) % size;
  double from_left = 0, from_right = 0, sent = own;
  MPI_Request requests[4];
  MPI_Irecv(&from_left, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&from_right, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&sent, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&sent, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[3]);
  if (has("buffer", size / 3) && step == 7) sent = 0;
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  return (from_left + own + from_right) / 3;
}

static double first_answer(double own) {
  double first, second;
  if (rank == 1 || rank == 2) MPI_Send(&own, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
  if (rank != 0) return own;
  MPI_Recv(&first, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(&second, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 2 * first + second;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) fault = argv[1];
  double value = rank, largest = 0, sum = 0;
  if (strcmp(fault, "order") == 0) value = first_answer(value);
  for (; step < steps; ++step) {
    if (has("leave", size / 3) && step == steps / 2) return 0;
    value = work(exchange(value), has("slow", size / 3) ? 1000000 : 100);
    if (step % 4 == 3) MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("mean %.3f, largest %.3f\n", sum / size, largest);
  MPI_Finalize();
  return 0;
}
