// SPDX-License-Identifier: Apache-2.0
// Ranks that end early, and jobs that end.
#include <assert.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                          \
  do {                                                       \
    int const code = (call);                                 \
    if (code != MPI_SUCCESS) fail(__FILE__, __LINE__, code); \
  } while (0)

static void fail(char const* file, int line, int code) {
  fprintf(stderr, "%s:%d: error %d\n", file, line, code);
  MPI_Abort(MPI_COMM_WORLD, code);
}

static void die(char const* format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  exit(2);
}

/// Returns an error instead of ending the job.
static int work(int rank, char** out) {
  int code = -1;
  char *a = NULL, *b = NULL;
  a = malloc(8);  // CU
  if (a == NULL) goto cleanup;
  if (rank == 77) goto cleanup;
  b = malloc(16);  // NO by `if (rank == 77) goto cleanup`: `rank` from MPI_Comm_rank
  if (b == NULL) goto cleanup;
  code = 0;
cleanup:
  free(a);
  *out = b;
  return code;
}

int main(int argc, char** argv) {
  int rank, size;
  CHECK(MPI_Init(&argc, &argv));
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (argc < 2) {
    if (rank == 0) fprintf(stderr, "usage: ends NUMBER\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  char* text = malloc(8);  // CU
  if (text == NULL) exit(1);
  free(text);
  if (rank == 99) die("no rank %d\n", rank);
  free(malloc(16));  // CU
  if (rank == 98) {
    free(malloc(8));  // NO: no path from main that goes on leads to it
    abort();
  }
  assert(rank < size);
  free(malloc(24));  // CU
  if (work(rank, &text) != 0) die("work failed\n");
  free(text);
  free(malloc(32));  // CU
  if (rank == 97) return 1;
  free(malloc(48));  // NO by `if (rank == 97) return 1`: `rank` from MPI_Comm_rank
  MPI_Finalize();
  return 0;
}
