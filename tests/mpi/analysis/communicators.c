// SPDX-License-Identifier: Apache-2.0
// Communicators: copies, parts, in structures and as parameters.
#include <mpi.h>
#include <stdlib.h>

typedef struct {
  MPI_Comm all, part;
  int rank, size;
} world;

static void open_world(world* w, MPI_Comm from) {
  MPI_Comm_dup(from, &w->all);
  MPI_Comm_rank(w->all, &w->rank);
  MPI_Comm_size(w->all, &w->size);
  MPI_Comm_split(w->all, w->rank % 2, w->rank, &w->part);
}

static int largest(MPI_Comm among, int value) {
  int result;
  MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, among);
  return result;
}

static void in_structure(int rank) {
  world w;
  open_world(&w, MPI_COMM_WORLD);
  free(malloc((size_t)w.size));                    // CU
  free(malloc((size_t)w.rank + 1));                // CV from MPI_Comm_rank
  free(malloc((size_t)largest(w.all, rank) + 1));  // CU
  free(malloc((size_t)largest(w.part, rank) + 1));
  // CV from MPI_Comm_split
  int n = rank;
  MPI_Bcast(&n, 1, MPI_INT, 0, w.part);
  free(malloc((size_t)n + 1));  // CV `part` from MPI_Comm_split
  MPI_Comm_free(&w.part);
  MPI_Comm_free(&w.all);
}

static void copies(int rank) {
  MPI_Comm first, second;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_dup(first, &second);
  int n = rank, size;
  MPI_Bcast(&n, 1, MPI_INT, 0, second);
  MPI_Comm_size(second, &size);
  free(malloc((size_t)n + 1));  // CU
  free(malloc((size_t)size));   // CU
  MPI_Comm_free(&first);
  MPI_Comm_free(&second);
}

static void parts(int rank, int size) {
  MPI_Comm one, half;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &one);  // all ranks in another order
  int n = rank, count, place;
  MPI_Comm_size(one, &count);
  MPI_Comm_rank(one, &place);
  MPI_Bcast(&n, 1, MPI_INT, 0, one);
  free(malloc((size_t)n + 1));      // CU
  free(malloc((size_t)count));      // CU
  free(malloc((size_t)place + 1));  // CV `place` from MPI_Comm_rank
  MPI_Comm_free(&one);
  MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
  MPI_Comm_size(half, &count);
  free(malloc((size_t)count));  // CV `half` from MPI_Comm_split
  int sum;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
  free(malloc((size_t)sum + 1));  // CV `half` from MPI_Comm_split
  if (rank < size / 2) {
    MPI_Bcast(&sum, 1, MPI_INT, 0, half);
    free(malloc((size_t)sum + 1));  // NO by `if (rank < size / 2)`: `rank` from MPI_Comm_rank
  }
  MPI_Comm_free(&half);
  MPI_Comm leaders;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 0, rank, &leaders);
  if (leaders != MPI_COMM_NULL) {
    free(malloc(8));  // NO by `if (leaders != MPI_COMM_NULL)`: from MPI_Comm_split
    MPI_Comm_free(&leaders);
  }
}

/// A grid of ranks without MPI_Cart_create.
static void grid(int rank, int size) {
  int columns = 1;
  while ((columns + 1) * (columns + 1) <= size) ++columns;
  int const rows = size / columns;
  int const row = rank / columns, column = rank % columns;
  double* const block = malloc(sizeof(double) * (size_t)(rows * columns));  // CU
  double* const left = column > 0 ? malloc(64) : NULL;
  // NO by `column > 0`: from MPI_Comm_rank
  double* const edge =
      malloc(sizeof(double) * (size_t)(row == 0 ? 4 : 8));  // CV from MPI_Comm_rank
  free(block);
  free(left);
  free(edge);
}

static MPI_Comm shared;

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &shared);
  MPI_Comm_rank(shared, &rank);
  MPI_Comm_size(shared, &size);
  free(malloc((size_t)size));      // CU
  free(malloc((size_t)rank + 1));  // CV `rank` from MPI_Comm_rank
  in_structure(rank);
  copies(rank);
  parts(rank, size);
  grid(rank, size);
  free(malloc((size_t)largest(shared, rank) + 1));  // CU
  MPI_Comm_free(&shared);
  MPI_Finalize();
  return 0;
}
