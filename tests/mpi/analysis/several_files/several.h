// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

typedef struct {
  int rank, size;
} ranks;

extern ranks context;

void start(int* argc, char*** argv);
void finish(void);

typedef struct {
  int rows, columns;
  double* cells;
} grid;

grid* new_grid(int rows, int columns);
void delete_grid(grid* g);

void* pool_get(size_t size);
void pool_put(void* p);
