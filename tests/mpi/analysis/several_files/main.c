// SPDX-License-Identifier: Apache-2.0
// A program of several files, with a static library.
#include <stdlib.h>

#include "several.h"

static void* own(size_t size) {
  return malloc(size);  // CU
}

int main(int argc, char** argv) {
  start(&argc, &argv);
  free(own(8));
  grid* const g = new_grid(context.size, 4);
  grid* const h = new_grid(context.rank + 1, 4);
  if (context.rank == 0) delete_grid(new_grid(2, 2));
  free(malloc((size_t)g->rows));  // CU
  free(malloc((size_t)h->rows));  // CV from MPI_Comm_rank
  delete_grid(g);
  delete_grid(h);
  finish();
  return 0;
}
