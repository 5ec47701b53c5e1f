// SPDX-License-Identifier: Apache-2.0
// Values that go through memory in ways that are easy to overlook.
#include <alloca.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int total(int count, ...) {
  va_list list;
  va_start(list, count);
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += va_arg(list, int);
  va_end(list);
  return sum;
}

typedef struct {
  char const* name;
  int* value;
} option;

static int first, second;

/// Writes through pointers that a table has.
static void set_all(int rank) {
  option const options[] = {{"first", &first}, {"second", &second}};
  for (int i = 0; i < 2; ++i) *options[i].value = i + rank;
}

typedef struct {
  long length;
  int* data;
} view;

static view make_view(int* data, int depth) {
  if (depth > 0) return make_view(data, depth - 1);
  view const v = {1, data};
  return v;
}

static void pointers(int rank) {
  int n = 1;
  int* const p = &n;
  int** const pp = &p + 0 * rank == NULL ? NULL : (int**)&p;
  **pp = rank + 1;
  free(malloc((size_t)n));  // CV from MPI_Comm_rank
  int m = 1;
  uintptr_t const number = (uintptr_t)&m;
  *(int*)number = rank + 1;
  free(malloc((size_t)m));  // CV
  int k = 1;
  void* carried[2] = {&k, NULL};
  uint64_t raw;
  memcpy(&raw, &carried[0], sizeof raw);
  void* back;
  memcpy(&back, &raw, sizeof raw);
  *(int*)back = rank + 1;
  free(malloc((size_t)k));  // CV from MPI_Comm_rank
  int j = 1;
  view v = make_view(&j, 2);
  *v.data = rank + 1;
  free(malloc((size_t)j));  // CV
  union {
    void* pointer;
    uint64_t number;
  } u, w;
  int q = 1;
  u.pointer = &q;
  w.number = u.number;
  *(int*)w.pointer = rank + 1;
  free(malloc((size_t)q));  // CV
}

static void arrays(int rank, int size) {
  int a[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  a[rank % 8] = 2;
  free(malloc((size_t)a[3]));  // CV from MPI_Comm_rank
  int b[8];
  for (int i = 0; i < 8; ++i) b[i] = i + 1;
  free(malloc((size_t)b[size % 8]));  // CU
  if (rank == 1) b[3] = 7;
  free(malloc((size_t)b[3]));  // CV from MPI_Comm_rank
  _Atomic int counter = 1;
  atomic_fetch_add(&counter, rank);
  free(malloc((size_t)counter));  // CV from MPI_Comm_rank
  char words[3][8] = {"a", "bb", "ccc"};
  free(malloc(strlen(words[size % 3]) + 1));  // CU
  words[0][rank % 2] = '\0';
  free(malloc(strlen(words[0]) + 1));  // CV from MPI_Comm_rank
}

static void frames(int rank, int size) {
  char* const a = alloca((size_t)size);
  a[0] = (char)size;
  free(malloc((size_t)a[0]));  // CU
  int v[rank + 1];
  v[0] = rank + 1;
  free(malloc((size_t)v[0]));  // CV from MPI_Comm_rank
  int w[size];
  for (int i = 0; i < size; ++i) w[i] = i + 1;
  free(malloc((size_t)w[size - 1]));  // CU
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  free(malloc((size_t)total(2, rank, 1)));  // CV
  set_all(rank);
  free(malloc((size_t)first + 1));  // CV from MPI_Comm_rank
  pointers(rank);
  arrays(rank, size);
  frames(rank, size);
  void* aligned;
  if (posix_memalign(&aligned, 64, (size_t)size * 64) != 0) MPI_Abort(MPI_COMM_WORLD, 1);  // CU
  free(aligned);
  if (posix_memalign(&aligned, 64, (size_t)rank * 64 + 64) != 0) exit(1);
  // CV `rank` from MPI_Comm_rank
  free(aligned);
  free(aligned_alloc(64, 128));  // CU
  MPI_Finalize();
  return 0;
}
