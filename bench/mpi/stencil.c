// SPDX-License-Identifier: Apache-2.0
// Jacobi steps of the heat equation on a plate of 8192 x 8192 cells, in blocks on a grid of ranks.
// The edge of a block is sent with MPI_Irecv and MPI_Isend. Columns are a vector type.
//
// mpi/stencil/step  ms: a step with its exchange, by the slowest rank. The work is the same for all
//                   numbers of ranks.
//
// usage: stencil [CELLS]    a side of the plate (8192), which both dimensions of the grid divide
#include "measure.h"

enum { rows_up, rows_down, columns_left, columns_right, sides };

static int rank, size, height, width;  // of the block
static int neighbours[sides];
static MPI_Comm grid;
static MPI_Datatype column;

#define CELL(block, i, j) ((block)[(size_t)(i) * (width + 2) + (j)])

static void exchange(double* block) {
  MPI_Request requests[2 * sides];
  double* const edges[sides] = {&CELL(block, 1, 1), &CELL(block, height, 1), &CELL(block, 1, 1),
                                &CELL(block, 1, width)};
  double* const halos[sides] = {&CELL(block, 0, 1), &CELL(block, height + 1, 1), &CELL(block, 1, 0),
                                &CELL(block, 1, width + 1)};
  for (int side = 0; side < sides; ++side) {
    int const is_row = side < columns_left, other = side ^ 1;
    MPI_Irecv(halos[side], is_row ? width : 1, is_row ? MPI_DOUBLE : column, neighbours[side],
              other, grid, &requests[side]);
  }
  for (int side = 0; side < sides; ++side) {
    int const is_row = side < columns_left;
    MPI_Isend(edges[side], is_row ? width : 1, is_row ? MPI_DOUBLE : column, neighbours[side], side,
              grid, &requests[sides + side]);
  }
  MPI_Waitall(2 * sides, requests, MPI_STATUSES_IGNORE);
}

static void relax(double const* restrict old, double* restrict new) {
  for (int i = 1; i <= height; ++i)
    for (int j = 1; j <= width; ++j)
      CELL(new, i, j) = 0.25 * (CELL(old, i - 1, j) + CELL(old, i + 1, j) + CELL(old, i, j - 1) +
                                CELL(old, i, j + 1));
}

/// The seconds of a step, by the slowest rank. Right in all ranks. `steps` is even.
static double run(double* blocks[2], int steps) {
  double seconds, longest;
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    exchange(blocks[step % 2]);
    relax(blocks[step % 2], blocks[1 - step % 2]);
  }
  seconds = (MPI_Wtime() - start) / steps;
  MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

/// A plate whose left edge has 1 and whose right edge has 0 keeps a linear profile along its rows,
/// if the upper and the lower edge have it, too.
static double profile(int column_of_plate, int cells) {
  return 1.0 - (double)column_of_plate / (cells + 1);
}

int main(int argc, char** argv) {
  int dimensions[2] = {0, 0}, periods[2] = {0, 0}, place[2];
  double times[samples];
  char params[100];
  MPI_Init(&argc, &argv);
  int const cells = argc > 1 ? atoi(argv[1]) : 8192;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, dimensions);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periods, 0, &grid);
  MPI_Comm_rank(grid, &rank);
  MPI_Cart_coords(grid, rank, 2, place);
  MPI_Cart_shift(grid, 0, 1, &neighbours[rows_up], &neighbours[rows_down]);
  MPI_Cart_shift(grid, 1, 1, &neighbours[columns_left], &neighbours[columns_right]);
  require(cells % dimensions[0] == 0 && cells % dimensions[1] == 0, "the side of the plate");
  height = cells / dimensions[0];
  width = cells / dimensions[1];
  MPI_Type_vector(height, 1, width + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);

  double* blocks[2];
  for (int k = 0; k < 2; ++k) {
    blocks[k] = malloc(sizeof(double) * (size_t)(height + 2) * (size_t)(width + 2));
    require(blocks[k] != NULL, "malloc");
    for (int i = 0; i <= height + 1; ++i)
      for (int j = 0; j <= width + 1; ++j)
        CELL(blocks[k], i, j) = profile(place[1] * width + j, cells);
  }
  // A disturbance at the block's centre must spread, and the rest must stay.
  int const center_row = height / 2, center_column = width / 2;
  CELL(blocks[0], center_row, center_column) += rank % 8 == 0 ? 1.0 : 0.0;
  run(blocks, 2);
  double const seconds = run(blocks, 2);
  int const steps = (steps_of_sample(seconds) + 1) / 2 * 2;
  int const runs = seconds > 0.1 ? fewest_samples : samples;
  for (int sample = 0; sample < runs; ++sample) times[sample] = run(blocks, steps);

  // The sum of all disturbances does not grow, and all of it is positive.
  double sums[2] = {0.0, 0.0}, all[2], least = 0.0, least_of_all;
  for (int i = 1; i <= height; ++i)
    for (int j = 1; j <= width; ++j) {
      double const rest = CELL(blocks[0], i, j) - profile(place[1] * width + j, cells);
      sums[0] += rest;
      least = rest < least ? rest : least;
    }
  sums[1] = rank % 8 == 0 ? 1.0 : 0.0;
  MPI_Allreduce(sums, all, 2, MPI_DOUBLE, MPI_SUM, grid);
  MPI_Allreduce(&least, &least_of_all, 1, MPI_DOUBLE, MPI_MIN, grid);
  require(all[0] > 0.5 * all[1] && all[0] < all[1] * (1.0 + 1e-6), "the sum of the disturbances");
  require(least_of_all > -1e-9, "a disturbance, which must not be negative");
  if (rank == 0) {
    snprintf(params, sizeof params, "\"ranks\":%d,\"cells\":%d", size, cells);
    print_times("stencil/step", params, times, runs, 1e3, "ms");
  }
  free(blocks[0]);
  free(blocks[1]);
  MPI_Type_free(&column);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return 0;
}
