// SPDX-License-Identifier: Apache-2.0
// What differs between ranks although no rank asks for its number, and what does not.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int const table[] = {8, 16, 24, 32, 40};

static int next_number(void) {
  static int number = 0;
  return ++number;
}

static int next_own(int step) {
  static int own = 0;
  return own += step;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  srand(1);
  free(malloc((size_t)(rand() % 8) + 1));  // CV from rand
  double const start = MPI_Wtime();
  if (MPI_Wtime() - start < 1000) free(malloc(8));
  // NO by `MPI_Wtime() - start < 1000`: from MPI_Wtime
  free(malloc((size_t)(time(NULL) % 8) + 1));  // CV from time
  free(malloc((size_t)table[size % 5]));       // CU
  free(malloc((size_t)table[rank % 5]));       // CV `rank` from MPI_Comm_rank
  free(malloc((size_t)next_number()));         // CU
  free(malloc((size_t)next_number() + 1));     // CU
  free(malloc((size_t)next_own(rank + 1)));    // CV from MPI_Comm_rank
  int local = 3;
  if ((unsigned long)&local % 4096 > 2048) free(malloc(8));
  // NO: the address of an object
  FILE* const file = fopen("/dev/null", "r");
  if (file != NULL) fclose(file);
  free(malloc(8));                // CU
  int* const a = malloc(4);       // CU
  int* const b = malloc(4);       // CU
  free(malloc(a < b ? 8 : 16));   // CV
  free(malloc(a == b ? 8 : 16));  // CU
  free(a);
  free(b);
  int volatile seen = size;
  free(malloc((size_t)seen));  // CU
  seen = rank;
  free(malloc((size_t)seen + 1));  // CV from MPI_Comm_rank
  double const share = 100.0 / size;
  free(malloc((size_t)(share + 0.5)));  // CU
  double const own = 100.0 / (rank + 1);
  free(malloc((size_t)(own + 0.5)));  // CV `rank` from MPI_Comm_rank
  MPI_Finalize();
  return 0;
}
