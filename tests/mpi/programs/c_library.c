// SPDX-License-Identifier: Apache-2.0
// What programs use of the C library: sorting, searching, words, numbers, options, time. Each rank
// computes with data of its own, and says what came out.
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int key;
  double weight;
  char name[12];
} item;

static int rank, size;

static int by_key(void const* a, void const* b) {
  int const x = ((item const*)a)->key, y = ((item const*)b)->key;
  return (x > y) - (x < y);
}
static int by_name(void const* a, void const* b) {
  return strcmp(((item const*)a)->name, ((item const*)b)->name);
}
static int by_weight_downwards(void const* a, void const* b) {
  double const x = ((item const*)a)->weight, y = ((item const*)b)->weight;
  return (x < y) - (x > y);
}

static void sort_and_search(void) {
  static int (*const orders[])(void const*, void const*) = {by_key, by_name, by_weight_downwards};
  enum { count = 200 };
  item* const items = calloc(count, sizeof *items);
  for (int i = 0; i < count; ++i) {
    items[i].key = (i * 7919 + rank * 104729) % 10007;
    items[i].weight = (double)((i * 31 + rank) % 211) / 8.0;
    snprintf(items[i].name, sizeof items[i].name, "n%05d", (i * 4241 + rank) % 99991);
  }
  int disorder = 0, found = 0;
  for (int k = 0; k < 3; ++k) {
    qsort(items, count, sizeof *items, orders[k]);
    for (int i = 1; i < count; ++i) disorder += orders[k](&items[i - 1], &items[i]) > 0;
  }
  qsort(items, count, sizeof *items, by_key);
  for (int key = 0; key < 10007; ++key) {
    item const wanted = {.key = key};
    item const* const at = bsearch(&wanted, items, count, sizeof *items, by_key);
    found += at != NULL && at->key == key;
  }
  printf("rank %d: %d out of order, %d of %d found, least %d, most %d\n", rank, disorder, found,
         count, items[0].key, items[count - 1].key);
  free(items);
}

static void words(void) {
  char text[200], copy[200], *rest = NULL;
  int length =
      snprintf(text, sizeof text, "size=%d; rank = %d,,name=\"rank %d\";end", size, rank, rank);
  strcpy(copy, text);
  int count = 0, letters = 0, digits = 0, spaces = 0;
  for (char* word = strtok(copy, ";,= \""); word != NULL; word = strtok(NULL, ";,= \"")) {
    ++count;
    word[0] = (char)toupper((unsigned char)word[0]);
    printf("rank %d: word %d is %s\n", rank, count, word);
  }
  strcpy(copy, text);
  for (char* part = strtok_r(copy, ";", &rest); part; part = strtok_r(NULL, ";", &rest)) {
    char *inner_rest = NULL, inner[200];
    strcpy(inner, part);
    for (char* p = strtok_r(inner, "=", &inner_rest); p; p = strtok_r(NULL, "=", &inner_rest))
      ++count;
  }
  for (int i = 0; i < length; ++i) {
    letters += isalpha((unsigned char)text[i]) != 0;
    digits += isdigit((unsigned char)text[i]) != 0;
    spaces += isspace((unsigned char)text[i]) != 0;
  }
  printf("rank %d: %d words, %d letters, %d digits, %d spaces, last = at %ld, name at %ld\n", rank,
         count, letters, digits, spaces, (long)(strrchr(text, '=') - text),
         (long)(strstr(text, "name") - text));
  printf("rank %d: span %zu, %zu; %.*s\n", rank, strspn(text, "size"), strcspn(text, ";"), 6,
         strpbrk(text, "0123456789"));
}

static void numbers(void) {
  char text[120];
  int a = 0, read = 0;
  unsigned b = 0;
  double c = 0.0;
  char name[10] = "";
  snprintf(text, sizeof text, "%d %#x %.3e %9s%n", -rank, rank * 255, rank / 3.0, "word", &read);
  int const fields = sscanf(text, "%d %x %lf %9s", &a, &b, &c, name);
  printf("rank %d: \"%s\" of %d characters, %d fields: %d %u %g %s\n", rank, text, read, fields, a,
         b, c, name);
  errno = 0;
  char* end = NULL;
  long const big = strtol("99999999999999999999", &end, 10);
  int const is_limit = big == LONG_MAX && errno == ERANGE;
  long const hexadecimal = strtol("-0x1fz", &end, 16);
  printf("rank %d: %d %ld %s %ld %lu %g %g\n", rank, is_limit, hexadecimal, end,
         strtol("0755", NULL, 0), strtoul("777", NULL, 8), strtod("1.5e3 rest", NULL),
         atof("-.25"));
  printf("rank %d: [%5d|%-5d|%05d|%+d|% d|%x|%o|%c|%%|%10.4f|%-10.2e|%g|%s|%.3s|%5s|%ld|%hhd|%p]\n",
         rank, rank, rank, rank, rank, rank, rank, rank, 'a' + rank, rank / 7.0, rank * 1e10,
         rank * 1e-5, "text", "text", "ab", (long)rank << 40, 300, (void*)0);
  printf("rank %d: %.17g %.0f %.1f %a %i %zu %jd %*d\n", rank, 0.1 * rank, 2.5, 0.25, 1.0, INT_MIN,
         sizeof(item), (long)-1, 6, rank);
}

static void options(void) {
  char of_steps[12], copies[7][12];
  char* arguments[8];
  snprintf(of_steps, sizeof of_steps, "-n%d", rank);
  char const* const given[] = {"program", "-v", of_steps, "input", "--size=12", "-o", "out"};
  for (int i = 0; i < 7; ++i) arguments[i] = strcpy(copies[i], given[i]);
  arguments[7] = NULL;
  static struct option const names[] = {{"size", required_argument, NULL, 's'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {NULL, 0, NULL, 0}};
  int letter, sum = 0;
  while ((letter = getopt_long(7, arguments, "vn:o:", names, NULL)) != -1) {
    sum = sum * 31 + letter;
    printf("rank %d: option %c %s\n", rank, letter, optarg ? optarg : "-");
  }
  printf("rank %d: %d, then %s\n", rank, sum, arguments[optind]);
}

static void times(void) {
  time_t const before = time(NULL), moment = 86400l * (20000 + rank) + 3661;
  clock_t const start = clock();
  double const wall = MPI_Wtime();
  char text[80];
  struct tm parts = *gmtime(&moment);
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S, day %j, %A", &parts);
  double volatile sum = 0.0;
  for (int i = 0; i < 1000; ++i) sum += 1.0 / (i + 1);
  int const is_right = clock() >= start && MPI_Wtime() >= wall && time(NULL) >= before &&
                       difftime(time(NULL), before) < 1e6 && before > 1700000000l;
  printf("rank %d: %s; clocks %d; %.6f\n", rank, text, is_right, sum);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  sort_and_search();
  words();
  numbers();
  options();
  times();
  srand((unsigned)rank);
  int const first = rand(), second = rand();
  srand((unsigned)rank);
  printf("rank %d: %d %d\n", rank, first == rand() && second == rand(), abs(-rank));
  div_t const parts = div(17 + rank, 5);
  printf("rank %d: %d %d %ld\n", rank, parts.quot, parts.rem, labs(-3l * rank));
  MPI_Finalize();
  return 0;
}
