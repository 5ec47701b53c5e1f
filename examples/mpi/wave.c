// SPDX-License-Identifier: Apache-2.0
// Heat spreads along a ring of cells. Each rank has four cells, and exchanges the outer two with its
// neighbours. The cells start as a wave, for which the exact result is known.
//
//   quarry-mpicc wave.c -o wave -lm && quarry-mpirun -n 1024 ./wave      or mpicc and mpirun
#include <math.h>
#include <mpi.h>
#include <stdio.h>

enum { own_cells = 4, cells_per_wave = 4 * own_cells, steps = 50 };

static const double conductivity = 0.25;
static double cells[own_cells + 2];  // with a copy of a neighbour's cell at each end

static double start_value(long cell) {
  double const turn = 2.0 * acos(-1.0) / cells_per_wave;
  return cos(turn * (double)(cell % cells_per_wave));
}

static void exchange(int left, int right) {
  MPI_Request requests[4];
  MPI_Irecv(&cells[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&cells[own_cells + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&cells[own_cells], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&cells[1], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void step(void) {
  double next[own_cells];
  for (int i = 0; i < own_cells; ++i)
    next[i] = cells[i + 1] + conductivity * (cells[i] - 2.0 * cells[i + 1] + cells[i + 2]);
  for (int i = 0; i < own_cells; ++i) cells[i + 1] = next[i];
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size % (cells_per_wave / own_cells) != 0) {
    if (rank == 0) printf("the number of ranks must be a multiple of 4\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  long const first = (long)rank * own_cells;
  for (int i = 0; i < own_cells; ++i) cells[i + 1] = start_value(first + i);
  for (int i = 0; i < steps; ++i) {
    exchange((rank + size - 1) % size, (rank + 1) % size);
    step();
  }

  // Each step multiplies the wave by the same factor.
  double const half_turn = sin(acos(-1.0) / cells_per_wave);
  double factor = 1.0, deviation = 0.0, largest = 0.0, heat = 0.0, sum = 0.0;
  for (int i = 0; i < steps; ++i) factor *= 1.0 - 4.0 * conductivity * half_turn * half_turn;
  for (int i = 0; i < own_cells; ++i) {
    deviation = fmax(deviation, fabs(cells[i + 1] - factor * start_value(first + i)));
    heat += cells[i + 1] + 1.0;
  }
  MPI_Allreduce(&deviation, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Reduce(&heat, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%d ranks, %d steps: the wave has %.4f of its height, the mean heat is %.6f, %s\n", size,
           steps, factor, sum / ((double)size * own_cells),
           largest < 1e-12 ? "as it must be" : "which is wrong");
  if (rank == size - 1) printf("rank %d: its last cell holds %.6f\n", rank, cells[own_cells]);
  MPI_Finalize();
  return largest < 1e-12 ? 0 : 1;
}
