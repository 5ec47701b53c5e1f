// SPDX-License-Identifier: Apache-2.0
// Counts words. Rank 0 scatters parts of the text; each word goes to the rank that its hash names,
// which keeps it in a hash table of linked lists.
#include <ctype.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "The quarry lies behind the hill. In the morning the carts come down from the hill, and in "
    "the evening the carts go up again. Nobody counts the stones; nobody counts the carts. The "
    "foreman counts the men, and the men count the hours. When the hours are over, the men go "
    "home, up the hill and down the hill, and the quarry is quiet. Stone by stone the hill grows "
    "smaller, hour by hour the day grows shorter, and word by word this text comes to its end.";

enum { longest = 24, buckets = 16 };

typedef struct word {
  struct word *next;
  int count;
  char letters[longest];
} word;

static word *table[buckets];

static unsigned hash(const char *letters) {
  unsigned value = 2166136261u;
  while (*letters != '\0') value = (value ^ (unsigned char)*letters++) * 16777619u;
  return value;
}

static void add(const char *letters) {
  word **place = &table[hash(letters) / 64 % buckets];
  for (; *place != NULL; place = &(*place)->next)
    if (strcmp((*place)->letters, letters) == 0) {
      ++(*place)->count;
      return;
    }
  *place = calloc(1, sizeof **place);
  strncpy((*place)->letters, letters, longest - 1);
  (*place)->count = 1;
}

/// The start of part `index`: the text is cut only between words.
static int cut(int index, int parts) {
  int const length = (int)strlen(text);
  int at = length * index / parts;
  while (at > 0 && at < length && isalpha((unsigned char)text[at])) ++at;
  return at;
}

int main(int argc, char **argv) {
  int rank, size, length;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *lengths = malloc(sizeof(int) * (size_t)size), *offsets = malloc(sizeof(int) * (size_t)size);
  for (int i = 0; i < size; ++i) {
    offsets[i] = cut(i, size);
    lengths[i] = cut(i + 1, size) - offsets[i];
  }
  MPI_Scatter(lengths, 1, MPI_INT, &length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  char *part = calloc((size_t)length + 1, 1);
  MPI_Scatterv(text, lengths, offsets, MPI_CHAR, part, length, MPI_CHAR, 0, MPI_COMM_WORLD);

  int sent = 0, lists_ended = 0;
  for (char *token = strtok(part, " .,;"); token != NULL; token = strtok(NULL, " .,;")) {
    char letters[longest] = {0};
    for (int i = 0; token[i] != '\0' && i < longest - 1; ++i)
      letters[i] = (char)tolower((unsigned char)token[i]);
    MPI_Send(letters, longest, MPI_CHAR, (int)(hash(letters) % (unsigned)size), 1, MPI_COMM_WORLD);
    ++sent;
  }
  for (int i = 0; i < size; ++i) MPI_Send(NULL, 0, MPI_CHAR, i, 2, MPI_COMM_WORLD);
  while (lists_ended < size) {
    char letters[longest];
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Recv(letters, longest, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (status.MPI_TAG == 2)
      ++lists_ended;
    else
      add(letters);
  }

  int different = 0, totals[2], own[2];
  for (int bucket = 0; bucket < buckets; ++bucket)
    for (word *w = table[bucket], *next; w != NULL; w = next) {
      printf("%-10s %3d\n", w->letters, w->count);
      ++different;
      next = w->next;
      free(w);
    }
  own[0] = sent;
  own[1] = different;
  MPI_Reduce(own, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d words, %d different\n", totals[0], totals[1]);
  free(part);
  free(lengths);
  free(offsets);
  MPI_Finalize();
  return 0;
}
