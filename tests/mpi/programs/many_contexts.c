/* SPDX-License-Identifier: Apache-2.0 */
/* A call of malloc in 1,250 contexts, all of whose memory is in one list, and loops within loops
   through five functions. An analysis whose time grows faster than these does not end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct item {
  struct item *next, *other;
  long value;
};

static struct item* head;
static long steps;

static void put(int value) {
  struct item* const made = malloc(sizeof *made);
  if (made == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  made->next = head;
  made->other = head == NULL ? NULL : head->next;
  made->value = value;
  head = made;
}
static void put_five(int x) {
  put(x);
  if (x % 3 != 0) put(x + 1);
  put(x + 2);
  put(x + 3);
  put(x + 5);
}
static void put_25(int x) {
  put_five(x);
  if (x % 5 != 0) put_five(x + 1);
  put_five(x + 2);
  put_five(x + 3);
  put_five(x + 5);
}
static void put_125(int x) {
  put_25(x);
  if (x % 7 != 0) put_25(x + 1);
  put_25(x + 2);
  put_25(x + 3);
  put_25(x + 5);
}
static void put_625(int x) {
  put_125(x);
  if (x % 9 != 0) put_125(x + 1);
  put_125(x + 2);
  put_125(x + 3);
  put_125(x + 5);
}

static int step(int x) {
  ++steps;
  return x % 3 != 0 ? x % 5 != 0 ? 1 : 2 : x % 7 != 0 ? 0 : 3;
}
static int loop_of_steps(int x) {
  int sum = 0;
  for (int i = 0; i < x % 3; ++i) sum += step(i) + step(x + 1);
  return sum + step(x) + step(x + 2) + step(x + 3) + step(x + 4);
}
static int loop_of_loops(int x) {
  int sum = 0;
  while (loop_of_steps(x) > 5) {
    ++x;
    sum += loop_of_steps(x) + loop_of_steps(x + 2);
  }
  return sum + loop_of_steps(x + 3) + loop_of_steps(x + 4) + loop_of_steps(x + 5);
}
static int deep_loop(int x) {
  int sum = 0;
  while (loop_of_loops(x) > 17) {
    ++x;
    sum += loop_of_loops(x) + loop_of_loops(x + 2);
  }
  return sum + loop_of_loops(x + 3) + loop_of_loops(x + 4) + loop_of_loops(x + 5);
}
static int deepest_loop(int x) {
  int sum = 0;
  while (x < 40 && deep_loop(x) % 2 != 0) {
    ++x;
    sum += deep_loop(x) + deep_loop(x + 2);
  }
  return sum + deep_loop(x + 3) + deep_loop(x + 4) + deep_loop(x + 5);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  put_625(rank);
  put_625(rank + 1);
  long numbers[3] = {0, 0, deepest_loop(rank) + deepest_loop(2 * rank)}, sums[3];
  while (head != NULL) {
    struct item* const last = head;
    numbers[0] += last->value + (last->other != NULL ? last->other->value : 0);
    head = last->next;
    free(last);
  }
  numbers[1] = steps;
  MPI_Reduce(numbers, sums, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("values %ld, steps %ld, sum %ld\n", sums[0], sums[1], sums[2]);
  MPI_Finalize();
  return 0;
}
