// SPDX-License-Identifier: Apache-2.0
// The heat equation on a plate, on a grid of ranks. Columns travel as a vector type, and rank 0
// collects the plate.
// usage: heat_2d [WIDTH HEIGHT]: of the plate; the ranks must be able to share it evenly
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { steps = 50 };

static int width = 24, height = 24;

typedef struct {
  int rows, columns;         // of ranks
  int row, column;           // of this rank
  int own_height, own_width; // cells of this rank
  int up, down, left, right; // neighbours
} layout;

static layout grid;

static int neighbour(int row, int column) {
  if (row < 0 || row >= grid.rows || column < 0 || column >= grid.columns) return MPI_PROC_NULL;
  return row * grid.columns + column;
}

static void lay_out(int rank, int size) {
  grid.rows = 1;
  for (int rows = 1; rows * rows <= size; ++rows)
    if (size % rows == 0 && height % rows == 0 && width % (size / rows) == 0) grid.rows = rows;
  grid.columns = size / grid.rows;
  grid.row = rank / grid.columns;
  grid.column = rank % grid.columns;
  grid.own_height = height / grid.rows;
  grid.own_width = width / grid.columns;
  grid.up = neighbour(grid.row - 1, grid.column);
  grid.down = neighbour(grid.row + 1, grid.column);
  grid.left = neighbour(grid.row, grid.column - 1);
  grid.right = neighbour(grid.row, grid.column + 1);
}

#define CELL(plate, i, j) ((plate)[(i) * (grid.own_width + 2) + (j)])

static void exchange(double *plate, MPI_Datatype column) {
  int const h = grid.own_height, w = grid.own_width;
  MPI_Sendrecv(&CELL(plate, 1, 1), w, MPI_DOUBLE, grid.up, 0, &CELL(plate, h + 1, 1), w, MPI_DOUBLE,
               grid.down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&CELL(plate, h, 1), w, MPI_DOUBLE, grid.down, 1, &CELL(plate, 0, 1), w, MPI_DOUBLE,
               grid.up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&CELL(plate, 1, 1), 1, column, grid.left, 2, &CELL(plate, 1, w + 1), 1, column,
               grid.right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&CELL(plate, 1, w), 1, column, grid.right, 3, &CELL(plate, 1, 0), 1, column,
               grid.left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Datatype column;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 2) width = atoi(argv[1]), height = atoi(argv[2]);
  lay_out(rank, size);
  int const h = grid.own_height, w = grid.own_width;
  MPI_Type_vector(h, 1, w + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  double *plates[2];
  for (int k = 0; k < 2; ++k) {
    plates[k] = calloc((size_t)(h + 2) * (size_t)(w + 2), sizeof(double));
    if (grid.up == MPI_PROC_NULL)
      for (int j = 0; j <= w + 1; ++j) CELL(plates[k], 0, j) = 100.0;  // the hot edge
  }
  for (int step = 0; step < steps; ++step) {
    double *const from = plates[step % 2], *const to = plates[1 - step % 2];
    exchange(from, column);
    for (int i = 1; i <= h; ++i)
      for (int j = 1; j <= w; ++j)
        CELL(to, i, j) = 0.25 * (CELL(from, i - 1, j) + CELL(from, i + 1, j) +
                                 CELL(from, i, j - 1) + CELL(from, i, j + 1));
  }
  double *const plate = plates[steps % 2];
  double *const inner = malloc((size_t)(h * w) * sizeof *inner);
  double *const all = rank == 0 ? malloc(sizeof(double) * (size_t)width * (size_t)height) : NULL;
  for (int i = 0; i < h; ++i)
    for (int j = 0; j < w; ++j) inner[i * w + j] = CELL(plate, i + 1, j + 1);
  MPI_Gather(inner, h * w, MPI_DOUBLE, all, h * w, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int y = 0; rank == 0 && y < height; y += height / 6) {
    printf("row %2d:", y);
    for (int x = 0; x < width; x += width / 6) {
      int const owner = y / h * grid.columns + x / w;
      printf(" %9.5f", all[owner * h * w + y % h * w + x % w]);
    }
    printf("\n");
  }
  free(all);
  free(inner);
  free(plates[0]);
  free(plates[1]);
  MPI_Type_free(&column);
  MPI_Finalize();
  return 0;
}
