/* SPDX-License-Identifier: Apache-2.0 */
/* Variable-length arrays, alloca() and large local variables, in loops, recursion and early ends
   of scopes. */
#include <alloca.h>
#include <mpi.h>
#include <stdio.h>

static unsigned next(unsigned* state) { return *state = *state * 1664525u + 1013904223u; }

static unsigned fill(unsigned length, unsigned* state) {
  unsigned values[length];
  for (unsigned i = 0; i < length; ++i) values[i] = next(state);
  unsigned sum = 0;
  for (unsigned i = 0; i < length; ++i) sum = sum * 31 + values[i];
  return sum;
}

static unsigned descend(int depth, unsigned* state) {
  int rows = 1 + (int)(next(state) >> 16) % 5;
  unsigned table[rows][depth + 1];
  unsigned sum = 0;
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k <= depth; ++k) table[i][k] = next(state) % 1000;
  for (int i = 0; i < rows; ++i) {
    unsigned copy[i + 1];
    for (int k = 0; k <= i; ++k) copy[k] = table[i][k % (depth + 1)];
    if (copy[i] % 7 == 3) continue;
    if (copy[i] % 97 == 5) break;
    sum += copy[i];
  }
  if (depth == 0 || sum % 101 == 7) return sum;
  sum += descend(depth - 1, state);
  for (int i = 0; i < rows; ++i) sum = sum * 17 + table[i][depth];
  return sum;
}

static unsigned use_alloca(unsigned count, unsigned* state) {
  struct link {
    struct link* next;
    unsigned value;
  }* list = 0;
  for (unsigned i = 0; i < count; ++i) {
    struct link* const link = alloca(sizeof(struct link));
    link->next = list;
    link->value = next(state);
    list = link;
  }
  unsigned sum = 0;
  for (; list; list = list->next) sum = sum * 3 + list->value;
  return sum;
}

static unsigned large(unsigned step, unsigned* state) {
  unsigned values[4096];
  _Alignas(64) char aligned[9000];
  for (unsigned i = 0; i < 4096; i += step) values[i] = next(state);
  aligned[step] = (char)step;
  unsigned sum = (unsigned)((unsigned long)aligned % 64) + (unsigned)aligned[step];
  for (unsigned i = 0; i < 4096; i += step) sum = sum * 5 + values[i];
  return sum;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned state = 12345u + (unsigned)rank;
  unsigned sum = 0;
  for (int i = 0; i < 200; ++i) {
    sum = sum * 7 + fill(1 + next(&state) % 50, &state);
    sum = sum * 7 + descend(i % 12, &state);
    sum = sum * 7 + use_alloca(i % 9, &state);
    sum = sum * 7 + large(1 + (unsigned)i, &state);
  }
  unsigned all[size]; /* a message to and from a variable-length array */
  MPI_Allgather(&sum, 1, MPI_UNSIGNED, all, 1, MPI_UNSIGNED, MPI_COMM_WORLD);
  unsigned total = 0;
  for (int i = 0; i < size; ++i) total = total * 11 + all[i];
  printf("%d %u %u\n", rank, sum, total);
  MPI_Finalize();
  return 0;
}
