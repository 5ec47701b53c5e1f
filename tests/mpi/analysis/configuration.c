// SPDX-License-Identifier: Apache-2.0
// Structures that one rank fills and that all ranks get.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int rows, columns;
  double tolerance;
  char name[16];
} config;

static void read_config(config* into, int rank) {
  into->rows = 10 + rank;
  into->columns = 20;
  into->tolerance = 0.5 + rank;
  strcpy(into->name, "config");
}

static void whole(int rank) {
  config c;
  memset(&c, 0, sizeof c);
  if (rank == 0) read_config(&c, rank);
  free(malloc((size_t)c.rows + 1));  // CV `rank` from MPI_Comm_rank
  MPI_Bcast(&c, sizeof c, MPI_BYTE, 0, MPI_COMM_WORLD);
  free(malloc((size_t)c.rows));             // CU
  free(malloc((size_t)(c.tolerance * 8)));  // CU
  free(malloc(strlen(c.name) + 1));         // CU
}

static void by_field(int rank) {
  config c = {0};
  if (rank == 0) read_config(&c, rank);
  MPI_Bcast(&c.rows, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)c.rows));         // CU
  free(malloc((size_t)c.columns + 1));  // CV `rank` from MPI_Comm_rank
  MPI_Bcast(&c.columns, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)c.columns));              // CU
  free(malloc((size_t)(c.tolerance * 8) + 1));  // CV `rank` from MPI_Comm_rank
}

static void share(config* c) {
  MPI_Bcast(&c->rows, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&c->tolerance, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void through_parameter(int rank) {
  config c = {.columns = 3};
  read_config(&c, rank);
  share(&c);
  free(malloc((size_t)c.rows));           // CU
  free(malloc((size_t)c.columns));        // CU
  free(malloc((size_t)c.tolerance + 1));  // CU
}

static void packed(int rank) {
  int numbers[4] = {0};
  if (rank == 0) {
    numbers[0] = 3;
    numbers[1] = rank + 4;
  }
  MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD);
  int const n = numbers[0], m = numbers[1];
  free(malloc((size_t)n * (size_t)m));  // CU
  char buffer[sizeof(int) + sizeof(double)];
  int count = rank + 1;
  double step = 0.5;
  memcpy(buffer, &count, sizeof count);
  memcpy(buffer + sizeof count, &step, sizeof step);
  MPI_Bcast(buffer, sizeof buffer, MPI_CHAR, 0, MPI_COMM_WORLD);
  memcpy(&count, buffer, sizeof count);
  memcpy(&step, buffer + sizeof count, sizeof step);
  free(malloc((size_t)count));           // CU
  free(malloc((size_t)(8 * step) + 1));  // CU
}

static void in_heap(int rank) {
  config* const c = malloc(sizeof *c);  // CU
  c->columns = 7;
  c->rows = rank + 1;
  free(malloc((size_t)c->columns));  // CU
  free(malloc((size_t)c->rows));     // CV from MPI_Comm_rank
  free(c);
}

static struct {
  int count, own;
} global;

static int steps;

static void in_globals(int rank, int size) {
  global.count = size;
  global.own = rank;
  free(malloc((size_t)global.count));    // CU
  free(malloc((size_t)global.own + 1));  // CV from MPI_Comm_rank
  if (rank == 0) steps = 100;
  free(malloc((size_t)steps + 1));  // CV from MPI_Comm_rank
  MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)steps));  // CU
}

static void copied(int rank, int size) {
  config a = {.rows = size, .columns = rank};
  config const b = a;
  config c;
  memcpy(&c, &b, sizeof c);
  free(malloc((size_t)c.rows));         // CU
  free(malloc((size_t)c.columns + 1));  // CV from MPI_Comm_rank
  memset(&a, 0, sizeof a);
  free(malloc((size_t)a.columns + 1));  // CU
}

static void overlaid(int rank) {
  union {
    int number;
    unsigned char bytes[4];
    float real;
  } u;
  u.number = rank;
  free(malloc((size_t)u.bytes[0] + 1));  // CV from MPI_Comm_rank
  u.real = 2.0f;
  free(malloc((size_t)u.real));  // CU
  struct {
    unsigned level : 3;
    unsigned own : 9;
  } bits = {5, 0};
  free(malloc(bits.level));  // CU
  bits.own = (unsigned)rank;
  free(malloc((size_t)bits.own + 1));  // CV from MPI_Comm_rank
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  whole(rank);
  by_field(rank);
  through_parameter(rank);
  packed(rank);
  in_heap(rank);
  in_globals(rank, size);
  copied(rank, size);
  overlaid(rank);
  MPI_Finalize();
  return 0;
}
