// SPDX-License-Identifier: Apache-2.0
// What functions of libraries do beside their results: they write through arguments, remember, and
// call functions of the program.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void count_of_letters(int rank) {
  int all = 0, one = 0;
  char text[64];
  sprintf(text, "%*d%n", rank + 1, 5, &all);
  free(malloc((size_t)all));  // CV
  sprintf(text, "%d%%n", 5);
  free(malloc((size_t)one + 1));  // CU
}

/// Rank 0 goes on to the second option; the program uses no variable of getopt.
static void remembered(int rank) {
  char* words[] = {"a", "-x", "-y", NULL};
  if (rank == 0) getopt(3, words, "xy");
  free(malloc((size_t)getopt(3, words, "xy")));  // CV
}

/// A vector of two numbers, one after the other or with one between them.
static MPI_Datatype pair(int distance) {
  MPI_Datatype made;
  MPI_Type_vector(2, 1, distance, MPI_INT, &made);
  MPI_Type_commit(&made);
  return made;
}

static void received_types(int rank, int size) {
  int own[2] = {1, 2}, all[256] = {0}, more[256] = {0}, same[256] = {0};
  int counts[64], places[64];
  for (int i = 0; i < size; i++) counts[i] = 1, places[i] = 2 * i;
  MPI_Datatype type = pair(rank == 0 ? 1 : 2), uniform = pair(2);
  MPI_Allgather(own, 2, MPI_INT, all, 1, type, MPI_COMM_WORLD);
  free(malloc((size_t)all[1] + 1));  // CV
  MPI_Allgatherv(own, 2, MPI_INT, more, counts, places, type, MPI_COMM_WORLD);
  free(malloc((size_t)more[1] + 1));  // CV
  MPI_Allgather(own, 2, MPI_INT, same, 1, uniform, MPI_COMM_WORLD);
  free(malloc((size_t)same[2] + 1));  // CU
  MPI_Type_free(&type);
  MPI_Type_free(&uniform);
}

/// The data of rank 0 lie before the array.
static void places_before(int rank, int size) {
  struct {
    int n;
    int rest[2];
  } s = {1, {0, 0}};
  int const own = rank + 7;
  int counts[64], places[64];
  for (int i = 0; i < size; i++) counts[i] = i == 0, places[i] = -1;
  MPI_Gatherv(&own, rank == 0, MPI_INT, s.rest, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)s.n));  // CV from MPI_Gatherv
}

static int order(void const* a, void const* b) {
  int const x = *(int const*)a, y = *(int const*)b;
  if (x == 99 || y == 99) {
    MPI_Finalize();
    exit(0);
  }
  return x - y;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  count_of_letters(rank);
  remembered(rank);
  received_types(rank, size);
  places_before(rank, size);
  free(malloc(8));  // CU
  int values[2] = {1, rank == 1 ? 99 : 3};
  qsort(values, 2, sizeof values[0], order);
  free(malloc(8));  // NO
  MPI_Finalize();
  return 0;
}
