// SPDX-License-Identifier: Apache-2.0
// Collective operations of many communicators of one world: copies, halves, rows and columns in
// both orders, and parts of parts. Each rank checks what it gets, and prints a sum of all of it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most = 16, longest = 1200, most_members = 2048 };

static MPI_Comm made[most];
static char const* names[most];
static int made_count, world_rank, world_size;
static unsigned long sum, wrong;

static void take(long value, long expected) {
  sum = sum * 31 + (unsigned long)value;
  wrong += value != expected;
}

static void add(char const* name, MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL) return;
  names[made_count] = name;
  made[made_count++] = communicator;
}
static MPI_Comm part(MPI_Comm from, int color, int key) {
  MPI_Comm result;
  MPI_Comm_split(from, color, key, &result);
  return result;
}
static MPI_Comm copy(MPI_Comm from) {
  MPI_Comm result;
  MPI_Comm_dup(from, &result);
  return result;
}

static void make_communicators(void) {
  int columns = 1;
  while ((columns + 1) * (columns + 1) <= world_size) columns++;
  int const row = world_rank / columns, column = world_rank % columns;
  add("copy", copy(MPI_COMM_WORLD));
  add("copy of the copy", copy(made[0]));
  add("reverse", part(MPI_COMM_WORLD, 0, -world_rank));
  MPI_Comm const half = part(MPI_COMM_WORLD, 2 * world_rank < world_size, world_rank);
  add("half", half);
  add("copy of the half", copy(half));
  add("row", part(MPI_COMM_WORLD, row, column));
  add("row from the right", part(MPI_COMM_WORLD, row, -column));
  add("column", part(MPI_COMM_WORLD, column, row));
  add("column from below", part(MPI_COMM_WORLD, column, -row));
  add("part of the half", part(half, world_rank % 3, world_rank * 7 % 5));
  add("some", part(MPI_COMM_WORLD, world_rank % 5 == 0 ? MPI_UNDEFINED : 0, world_rank));
  MPI_Comm grid;
  int sizes[2] = {0, 0}, periods[2] = {0, 1}, remains[2] = {0, 1};
  MPI_Dims_create(world_size, 2, sizes);
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &grid);
  add("grid", grid);
  MPI_Comm line;
  MPI_Cart_sub(grid, remains, &line);
  add("line of the grid", line);
}

static void broadcasts(MPI_Comm in, int rank, int size) {
  static int in_global[longest];
  int on_stack[20];
  int* const in_heap = malloc(sizeof(int) * longest);
  int const counts[] = {1, 16, 17, longest};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 3; k++) {
      int const count = counts[i], root = (i * 5 + k * 3) % size;
      int* const data = count < 20 && k == 0 ? on_stack : k == 1 ? in_global : in_heap;
      for (int j = 0; j < count; j++) data[j] = rank == root ? root * 100 + j * 3 + k : -1;
      MPI_Bcast(data, count, MPI_INT, root, in);
      for (int j = 0; j < count; j++) take(data[j], root * 100 + j * 3 + k);
    }
  free(in_heap);
}

static void reductions(MPI_Comm in, int rank, int size) {
  int const counts[] = {1, 2, 3, 4, 8, 9, longest};
  long* const sent = malloc(sizeof(long) * longest);
  long* const received = malloc(sizeof(long) * longest);
  long const ranks = (long)size * (size - 1) / 2;
  for (int i = 0; i < 7; i++) {
    int const count = counts[i], root = i * 7 % size;
    for (int j = 0; j < count; j++) sent[j] = rank + j, received[j] = -1;
    MPI_Allreduce(sent, received, count, MPI_LONG, MPI_SUM, in);
    for (int j = 0; j < count; j++) take(received[j], ranks + (long)j * size);
    for (int j = 0; j < count; j++) received[j] = rank == root ? sent[j] : -1;
    MPI_Reduce(rank == root ? MPI_IN_PLACE : sent, received, count, MPI_LONG, MPI_MAX, root, in);
    for (int j = 0; j < count; j++) take(received[j], rank == root ? size - 1 + j : -1);
  }
  float least = 0.5f + (float)rank;
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_FLOAT, MPI_MIN, in);
  take((long)(least * 2), 1);
  free(sent);
  free(received);
}

static void parts(MPI_Comm in, int rank, int size) {
  int const counts[] = {1, 3, 8};
  for (int i = 0; i < 3; i++) {
    int const count = counts[i], root = i * 3 % size;
    size_t const room = sizeof(int) * (size_t)count * (size_t)size;
    int *const all = malloc(room), *const sent = malloc(room), *const own = malloc(room);
    for (int j = 0; j < count; j++) own[j] = rank * 10 + j;
    memset(all, -1, room);
    MPI_Gather(own, count, MPI_INT, all, count, MPI_INT, root, in);
    for (int j = 0; j < count * size; j++)
      take(all[j], rank == root ? j / count * 10 + j % count : -1);
    MPI_Allgather(own, count, MPI_INT, all, count, MPI_INT, in);
    for (int j = 0; j < count * size; j++) take(all[j], j / count * 10 + j % count);
    MPI_Scatter(all, count, MPI_INT, own, count, MPI_INT, root, in);
    for (int j = 0; j < count; j++) take(own[j], rank * 10 + j);
    for (int j = 0; j < count * size; j++) sent[j] = rank * 1000 + j;
    MPI_Alltoall(sent, count, MPI_INT, all, count, MPI_INT, in);
    for (int j = 0; j < count * size; j++)
      take(all[j], j / count * 1000 + rank * count + j % count);
    MPI_Alltoall(MPI_IN_PLACE, count, MPI_INT, sent, count, MPI_INT, in);
    take(memcmp(sent, all, room), 0);
    free(all);
    free(sent);
    free(own);
  }
}

/// How many elements a rank sends to another one.
static int length(int from, int to, int salt) {
  return (from * 5 + to * 3 + salt) % 90 % (7 + 80 * (salt % 2));
}

static void exchanges(MPI_Comm in, int rank, int size) {
  int* const numbers = malloc(sizeof(int) * 4 * (size_t)size);
  int *const counts = numbers, *const places = numbers + size, *const came = numbers + 2 * size,
             *const came_to = numbers + 3 * size;
  MPI_Datatype wide;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &wide);
  MPI_Type_commit(&wide);
  for (int salt = 0; salt < 4; salt++) {
    int const is_wide = salt == 2;  // elements with gaps, sent by each second rank
    int const stride = is_wide && rank % 2 == 1 ? 2 : 1;
    int sent_count = 0, room = 0;
    for (int i = 0; i < size; i++) {
      int const back = size - 1 - i;  // parts lie in the opposite order
      counts[back] = length(rank, back, salt);
      places[back] = sent_count;
      sent_count += counts[back];
      came[i] = length(i, rank, salt);
      came_to[i] = room;
      room += came[i] + i % 2;
    }
    int* const sent = malloc(sizeof(int) * (size_t)(sent_count * stride + 1));
    int* const received = malloc(sizeof(int) * (size_t)(room + 1));
    for (int i = 0; i < size; i++)
      for (int j = 0; j < counts[i]; j++)
        sent[(places[i] + j) * stride] = rank * 10000 + i * 10 + j;
    for (int i = 0; i < room; i++) received[i] = -1;
    MPI_Alltoallv(sent, counts, places, stride == 2 ? wide : MPI_INT, received, came, came_to,
                  MPI_INT, in);
    for (int i = 0; i < size; i++) {
      for (int j = 0; j < came[i]; j++) take(received[came_to[i] + j], i * 10000 + rank * 10 + j);
      if (i % 2 == 1) take(received[came_to[i] + came[i]], -1);
    }
    free(sent);
    free(received);
  }
  MPI_Type_free(&wide);
  // In place, with arrays on the stack.
  if (size <= 64) {
    int few[64], few_places[64], data[64 * 3];
    for (int i = 0; i < size; i++) {
      few[i] = (rank + i) % 4 % 3;
      few_places[i] = 3 * i;
      for (int j = 0; j < 3; j++) data[3 * i + j] = rank * 100 + i;
    }
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, data, few, few_places, MPI_INT, in);
    for (int i = 0; i < size; i++)
      for (int j = 0; j < 3; j++)
        take(data[3 * i + j], j < few[i] ? i * 100 + rank : rank * 100 + i);
  }
  free(numbers);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  make_communicators();
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < made_count; i++) {
      int rank, size;
      unsigned long const before = wrong;
      MPI_Comm_rank(made[i], &rank);
      MPI_Comm_size(made[i], &size);
      broadcasts(made[i], rank, size);
      reductions(made[i], rank, size);
      if (size <= most_members) {
        parts(made[i], rank, size);
        exchanges(made[i], rank, size);
      }
      MPI_Barrier(made[i]);
      if (wrong != before)
        printf("rank %d: %lu wrong values in %s\n", world_rank, wrong - before, names[i]);
    }
  printf("rank %d of %d: sum %lu\n", world_rank, world_size, sum);
  for (int i = made_count; i-- > 0;) MPI_Comm_free(&made[i]);
  MPI_Finalize();
  return 0;
}
