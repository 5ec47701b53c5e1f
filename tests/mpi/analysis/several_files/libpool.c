// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "several.h"

static void* own(size_t size) {
  return calloc(1, size);
  // [own(size) <- pool_get(sizeof *g) <- g = new_grid(context.size] CU
  // [own(size) <- pool_get(sizeof(double) <- g = new_grid(context.size] CU
  // [own(size) <- pool_get(sizeof *g) <- h = new_grid(context.rank] CU
  // [own(size) <- pool_get(sizeof(double) <- h = new_grid(context.rank] CV from MPI_Comm_rank
  // [own(size) <- pool_get(sizeof *g) <- delete_grid(new_grid(2, 2))] NO by `if (context.rank == 0)`: from MPI_Comm_rank
  // [own(size) <- pool_get(sizeof(double) <- delete_grid(new_grid(2, 2))] NO by `if (context.rank == 0)`
}

void* pool_get(size_t size) {
  void* const p = own(size);
  if (p == NULL) abort();
  return p;
}

void pool_put(void* p) { free(p); }
