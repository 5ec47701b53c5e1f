/* SPDX-License-Identifier: Apache-2.0 */
/* What C has beside plain functions and variables. Each rank prints what it sees of its own copy. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>

extern int shared_array[];
extern int missing_function(int) __attribute__((weak));
int common_variable;
__attribute__((weak)) int weak_value = 3;

static int count(int x) {
  static int calls;
  return ++calls + x;
}
static int twice(int x) { return 2 * x; }
static int (*functions[])(int) = {count, twice};
static int (*const constant_functions[])(int) = {twice, count};

static int target = 7;
static int* pointers[] = {&target, &shared_array[1], 0};
struct node {
  char const* name;
  int* value;
  struct node* next;
  int (*call)(int);
};
static struct node last = {"last", &target, 0, twice};
static struct node first = {
    .name = "first", .value = &shared_array[2], .next = &last, .call = count};
static char const* const words[] = {"zero", "one", "two"};

static _Thread_local int per_thread = 5;
static int ready;
__attribute__((constructor)) static void begin(void) { ready = 40 + per_thread; }

int aliased(int x) { return x + 100; }
int other_name(int x) __attribute__((alias("aliased")));

static int jump(int label) {
  static void* labels[] = {&&first_label, &&second_label, &&third_label};
  goto* labels[label];
first_label:
  return 10;
second_label:
  return 20;
third_label:
  return 30;
}

static double sum(int count, ...) {
  va_list values;
  double result = 0;
  va_start(values, count);
  for (int i = 0; i < count; ++i)
    result += i % 2 == 0 ? va_arg(values, int) : va_arg(values, double);
  va_end(values);
  return result;
}

union bits {
  double number;
  unsigned char bytes[8];
};
struct packed {
  unsigned low : 5, high : 11;
};

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  target += rank;
  per_thread += rank;
  shared_array[1] += 10 * rank;
  common_variable += rank;
  union bits const bits = {.number = 1.0 + rank};
  struct packed const packed = {.low = 17 + rank, .high = 2000};
  int const values[] = {[3] = rank, [1] = 5};
  int const calls[] = {functions[0](1), functions[1](rank)};
  int const more_calls[] = {constant_functions[1](2), constant_functions[rank % 2](9)};
  printf("%d a %d %d %d %d\n", rank, calls[0], calls[1], more_calls[0], more_calls[1]);
  printf("%d b %d %d %d %s\n", rank, *pointers[0], *pointers[1], per_thread, words[rank % 3]);
  printf("%d c %s %d %s %d %d\n", rank, first.name, *first.value, first.next->name,
         *first.next->value, first.call(5));
  printf("%d d %d %d %d %d %d\n", rank, common_variable, weak_value, ready, other_name(rank),
         missing_function ? 1 : 0);
  printf("%d e %d %d %d\n", rank, jump(0), jump(1), jump(rank % 3));
  printf("%d f %.1f %d %d %d %d %d\n", rank, sum(4, 1, 2.5, 3, 4.5 + rank), bits.bytes[7],
         packed.low, packed.high, values[3], values[1]);
  MPI_Finalize();
  return 0;
}
