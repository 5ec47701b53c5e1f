// SPDX-License-Identifier: Apache-2.0
// Collective operations that do not give all ranks the same bytes, and types of the program.
#include <mpi.h>
#include <stdlib.h>

static MPI_Comm own = MPI_COMM_SELF;
static MPI_Comm all = MPI_COMM_WORLD;

/// Keeps the communicators in memory: a recursive function reads them.
static int largest(int value, int depth) {
  if (depth > 0) return largest(value, depth - 1);
  int result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, all);
  return result;
}

static int alone(int value, int depth) {
  if (depth > 0) return alone(value, depth - 1);
  int result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, own);
  return result;
}

static void places(int rank, int size) {
  int* const values = calloc((size_t)size * 2, sizeof(int));  // CU
  int* const counts = calloc((size_t)size, sizeof(int));      // CU
  int* const offsets = calloc((size_t)size, sizeof(int));     // CU
  for (int i = 0; i < size; ++i) {
    counts[i] = 1;
    offsets[i] = (i + rank) % size;
  }
  int const mine = rank + 1;
  MPI_Allgatherv(&mine, 1, MPI_INT, values, counts, offsets, MPI_INT, MPI_COMM_WORLD);
  free(malloc((size_t)values[0]));  // CV from MPI_Comm_rank
  free(malloc((size_t)counts[0]));  // CU
  free(values);
  free(offsets);
  free(counts);
}

static void layouts(int rank) {
  MPI_Datatype pair, apart;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_vector(2, 1, 1 + rank % 2, MPI_INT, &apart);
  MPI_Type_commit(&pair);
  MPI_Type_commit(&apart);
  int* const a = calloc(2, sizeof(int));  // CU
  int* const b = calloc(3, sizeof(int));  // CU
  MPI_Bcast(a, 1, pair, 0, MPI_COMM_WORLD);
  MPI_Bcast(b, 1, apart, 0, MPI_COMM_WORLD);
  free(malloc((size_t)a[1] + 1));  // CU
  free(malloc((size_t)b[1] + 1));  // CV from MPI_Comm_rank
  MPI_Type_free(&pair);
  MPI_Type_free(&apart);
  free(a);
  free(b);
}

/// A message reaches a variable through its address alone.
static void absolute(int rank) {
  int here = 0, length = 1;
  MPI_Aint place;
  MPI_Datatype at;
  MPI_Get_address(&here, &place);
  MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &at);
  MPI_Type_commit(&at);
  MPI_Sendrecv(&rank, 1, MPI_INT, rank, 0, MPI_BOTTOM, 1, at, rank, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  free(malloc((size_t)here + 1));  // CV
  MPI_Type_free(&at);
}

/// Errors that return can differ between ranks.
static void errors(int rank) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int const code = MPI_Send(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  if (code == MPI_SUCCESS) free(malloc(8));  // NO by `code == MPI_SUCCESS`: `code` from MPI_Send
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  free(malloc((size_t)alone(rank, 2) + 1));  // CV
  free(malloc((size_t)largest(7, 2)));       // CU
  places(rank, size);
  layouts(rank);
  absolute(rank);
  errors(rank);
  MPI_Finalize();
  return 0;
}
