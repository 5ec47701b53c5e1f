// SPDX-License-Identifier: Apache-2.0
// The heat equation on a rod, explicit, until the largest change is small. Halos are exchanged by
// non-blocking calls.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double tolerance = 1e-4;
static int cells = 60;  // of the whole rod

static int first_cell(int rank, int size) { return (int)((long)cells * rank / size); }

int main(int argc, char **argv) {
  int rank, size, step = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) cells = atoi(argv[1]);
  int const begin = first_cell(rank, size);
  int const count = first_cell(rank + 1, size) - begin;
  int const left = rank == 0 ? MPI_PROC_NULL : rank - 1;
  int const right = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
  double *now = calloc((size_t)count + 2, sizeof *now);
  double *then = calloc((size_t)count + 2, sizeof *then);
  for (int i = 1; i <= count; ++i) now[i] = begin + i - 1 < cells / 2 ? 100.0 : 0.0;

  for (double change = 1.0; change > tolerance && step < 400; ++step) {
    MPI_Request requests[4];
    // The ends of the rod are insulated.
    if (left == MPI_PROC_NULL) now[0] = now[1];
    if (right == MPI_PROC_NULL) now[count + 1] = now[count];
    MPI_Irecv(&now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&now[count + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&now[1], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&now[count], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    double own_change = 0.0;
    for (int i = 1; i <= count; ++i) {
      then[i] = now[i] + 0.4 * (now[i - 1] - 2.0 * now[i] + now[i + 1]);
      own_change = fmax(own_change, fabs(then[i] - now[i]));
    }
    double *const swapped = now;
    now = then;
    then = swapped;
    MPI_Allreduce(&own_change, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

  double heat = 0.0, total;
  for (int i = 1; i <= count; ++i) heat += now[i];
  MPI_Allreduce(&heat, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d steps, heat %.6f\n", step, total);
  for (int i = 1; i <= count; ++i)
    if ((begin + i - 1) % 10 == 0) printf("cell %3d: %10.6f\n", begin + i - 1, now[i]);
  free(now);
  free(then);
  MPI_Finalize();
  return 0;
}
