// SPDX-License-Identifier: Apache-2.0
// One rank writes through a null pointer while the others wait for it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct list {
  struct list *next;
  int value;
};

static struct list *find(struct list *first, int value) {
  while (first != NULL && first->value != value) first = first->next;
  return first;
}

static struct list *add(struct list *first, int value) {
  struct list *const added = malloc(sizeof *added);
  added->next = first;
  added->value = value;
  return added;
}

int main(int argc, char **argv) {
  int rank, size;
  struct list *items = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 3; ++i) items = add(items, i);
  if (rank == size - 1) find(items, 3)->value = rank;  // there is no 3
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d: not reached, %d\n", rank, items->value);
  MPI_Finalize();
  return 0;
}
