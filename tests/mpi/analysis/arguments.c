// SPDX-License-Identifier: Apache-2.0
// Sizes from the command line, the environment and text.
#define _GNU_SOURCE
#include <ctype.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void numbers(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 5;
  free(malloc((size_t)n));  // CU
  char* end;
  long const m = strtol(argv[1], &end, 10);
  if (*end != '\0') return;
  free(malloc((size_t)m));  // CU
  int k = 3;
  if (sscanf(argv[2], "%d", &k) != 1) exit(1);
  free(malloc((size_t)k));  // CU
  double const x = atof(argv[2]) * 1.5;
  free(malloc((size_t)x));             // CU
  free(malloc(strlen(argv[1]) + 1));   // CU
  char* const copy = strdup(argv[1]);  // CU
  free(malloc(strlen(copy) + 1));      // CU
  free(copy);
  char const* const home = getenv("HOME");
  free(malloc(home == NULL ? 1 : strlen(home) + 1));  // CU
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-v") == 0) continue;
    free(malloc(strlen(argv[i])));  // CU
  }
  int digits = 0;
  for (char const* p = argv[1]; *p != '\0'; ++p)
    if (isdigit((unsigned char)*p)) ++digits;
  free(malloc((size_t)digits + 1));  // CU
}

static void text(int rank) {
  char const pair[] = "size=12";
  char const* const equals = strchr(pair, '=');
  if (equals == NULL) exit(1);
  free(malloc((size_t)(equals - pair) + 1));  // CU
  free(malloc((size_t)atoi(equals + 1)));     // CU
  char name[32];
  snprintf(name, sizeof name, "out.%d", rank);
  free(malloc(strlen(name) + 1));   // CV `rank` from MPI_Comm_rank
  char* const copy = strdup(name);  // CV from MPI_Comm_rank
  free(malloc(strlen(copy) + 1));   // CV from MPI_Comm_rank
  free(copy);
  char same[32];
  sprintf(same, "step %d", 7);
  free(malloc(strlen(same) + 1));  // CU
  char host[MPI_MAX_PROCESSOR_NAME];
  int length;
  MPI_Get_processor_name(host, &length);
  free(malloc((size_t)length + 1));  // CV `length` from MPI_Get_processor_name
  char words[] = "12 34 56";
  int total = 0;
  for (char* word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
    free(malloc(strlen(word)));  // CU
    total += atoi(word);
  }
  free(malloc((size_t)total));  // CU
}

static void options(int argc, char** argv, int rank) {
  int count = 4;
  size_t length = 1;
  for (int option; (option = getopt(argc, argv, "n:f:")) != -1;) {
    switch (option) {
      case 'n':
        count = atoi(optarg);
        break;
      case 'f':
        length = strlen(optarg) + 1;
        break;
      default:
        exit(1);
    }
  }
  free(malloc((size_t)count));   // CU
  free(malloc(length));          // CU
  free(malloc((size_t)optind));  // CU
  (void)rank;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) {
    fprintf(stderr, "usage: %s NUMBER NUMBER\n", argv[0]);
    MPI_Finalize();
    return 1;
  }
  numbers(argc, argv);
  text(rank);
  options(argc, argv, rank);
  MPI_Finalize();
  return 0;
}
