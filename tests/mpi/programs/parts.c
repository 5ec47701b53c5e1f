// SPDX-License-Identifier: Apache-2.0
// Gather and scatter between arrays on stacks, of which the root's has gaps, in the world, in a copy
// of it, and in parts; and scans of products that do not commute.
#include <mpi.h>
#include <stdio.h>

enum { most = 32, longest = 3 };

struct cell {
  short head;
  double value;
};

static MPI_Datatype cell_type(void) {
  struct cell one;
  MPI_Aint places[3];
  MPI_Datatype types[2] = {MPI_SHORT, MPI_DOUBLE}, packed, result;
  int lengths[2] = {1, 1};
  MPI_Get_address(&one, &places[0]);
  MPI_Get_address(&one.head, &places[1]);
  MPI_Get_address(&one.value, &places[2]);
  places[1] -= places[0], places[2] -= places[0];
  MPI_Type_create_struct(2, lengths, places + 1, types, &packed);
  MPI_Type_create_resized(packed, 0, sizeof one, &result);
  MPI_Type_commit(&result);
  MPI_Type_free(&packed);
  return result;
}

static void exchange(MPI_Comm all, MPI_Datatype type, char const* name) {
  int rank, size, counts[most], places[most];
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  struct cell cells[most * (longest + 1)], own[longest], got[longest];
  int const root = size / 2, count = 1 + rank % longest;
  for (int i = 0; i < size; ++i)
    counts[i] = 1 + i % longest, places[i] = (longest + 1) * (size - 1 - i);
  for (int i = 0; i < most * (longest + 1); ++i) cells[i].head = -1, cells[i].value = -1.0;
  for (int i = 0; i < count; ++i)
    own[i].head = (short)(10 * rank + i), own[i].value = rank + 0.1 * i;
  MPI_Gatherv(own, count, type, cells, counts, places, type, root, all);
  double sum = 0.0;
  for (int i = 0; i < (longest + 1) * size; ++i) sum += (i + 1) * (cells[i].head + cells[i].value);
  printf("%s: rank %2d gathers %g\n", name, rank, sum);
  for (int i = 0; i < (longest + 1) * size; ++i) cells[i].value += 100.0;
  MPI_Scatterv(cells, counts, places, type, got, count, type, root, all);
  for (int i = 0; i < count; ++i)
    printf("%s: rank %2d gets %d %g\n", name, rank, got[i].head, got[i].value);
  MPI_Gather(own, 1, type, rank == root ? (void*)(cells + 1) : NULL, 1, type, root, all);
  MPI_Scatter(cells + 1, 1, type, rank == root ? MPI_IN_PLACE : got, 1, type, root, all);
  printf("%s: rank %2d gets back %d %g\n", name, rank, got[0].head, got[0].value);
  if (rank == root) {  // in place, and from another type
    short heads[most];
    for (int i = 0; i < size; ++i) heads[i] = (short)-i;
    MPI_Gather(MPI_IN_PLACE, 1, MPI_SHORT, heads, 1, MPI_SHORT, root, all);
    for (int i = 0; i < size; ++i) sum += i * heads[i];
    printf("%s: the heads have %g\n", name, sum);
  } else {
    MPI_Gather(&own[0].head, 1, MPI_SHORT, NULL, 0, MPI_DATATYPE_NULL, root, all);
  }
}

/// Affine maps modulo 1009: first `lower`, then `inout`.
static void compose(void* lower, void* inout, int* count, MPI_Datatype* type) {
  long const* const first = lower;
  long* const second = inout;
  (void)type;
  for (int i = 0; i < *count; ++i) {
    second[2 * i + 1] = (second[2 * i] * first[2 * i + 1] + second[2 * i + 1]) % 1009;
    second[2 * i] = second[2 * i] * first[2 * i] % 1009;
  }
}

static void scan(MPI_Comm all, int pairs) {
  int rank;
  long own[64], result[64] = {0};
  MPI_Datatype map;
  MPI_Op product;
  MPI_Comm_rank(all, &rank);
  MPI_Type_contiguous(2, MPI_LONG, &map);
  MPI_Type_commit(&map);
  MPI_Op_create(compose, 0, &product);
  for (int i = 0; i < 2 * pairs; ++i) own[i] = (rank * 37 + i * 11) % 100 + 2;
  MPI_Scan(own, result, pairs, map, product, all);
  printf("rank %2d scans %ld %ld", rank, result[0], result[2 * pairs - 1]);
  result[0] = result[2 * pairs - 1] = 0;
  MPI_Exscan(own, result, pairs, map, product, all);
  if (rank == 0) result[0] = result[2 * pairs - 1] = 0;
  printf(", before it %ld %ld\n", result[0], result[2 * pairs - 1]);
  MPI_Op_free(&product);
  MPI_Type_free(&map);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Comm copy, part;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Datatype type = cell_type();
  exchange(MPI_COMM_WORLD, type, "world");
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  exchange(copy, type, "copy");
  MPI_Comm_split(copy, rank % 2, -rank, &part);
  exchange(part, type, rank % 2 ? "odd" : "even");
  scan(MPI_COMM_WORLD, 1);
  scan(copy, 32);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&part);
  MPI_Type_free(&type);
  MPI_Finalize();
  return 0;
}
