// SPDX-License-Identifier: Apache-2.0
#include "several.h"

grid* new_grid(int rows, int columns) {
  grid* const g = pool_get(sizeof *g);
  g->rows = rows;
  g->columns = columns;
  g->cells = pool_get(sizeof(double) * (size_t)rows * (size_t)columns);
  return g;
}

void delete_grid(grid* g) {
  pool_put(g->cells);
  pool_put(g);
}
