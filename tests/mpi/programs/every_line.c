// SPDX-License-Identifier: Apache-2.0
// Lines that ranks print at once, of different lengths and in parts. Each line says how long it is
// and has a checksum, so that a reader can tell whether any is missing, torn or mixed.
// usage: every_line [LINES]: how many lines each rank prints
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { longest = 120 };

static unsigned checksum(char const* text) {
  unsigned sum = 2166136261u;
  for (; *text != '\0'; ++text) sum = (sum ^ (unsigned char)*text) * 16777619u;
  return sum;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const lines = argc > 1 ? atoi(argv[1]) : 5;
  for (int line = 0; line < lines; ++line) {
    char text[longest + 1];
    int const length = (rank * 31 + line * 17) % (longest + 1);
    for (int i = 0; i < length; ++i) text[i] = (char)('a' + (rank + line + i * i) % 26);
    text[length] = '\0';
    switch ((rank + line) % 3) {  // whole, in parts, or character by character
      case 0:
        printf("%d %d %d %08x %s\n", rank, line, length, checksum(text), text);
        break;
      case 1:
        printf("%d %d ", rank, line);
        printf("%d %08x ", length, checksum(text));
        fputs(text, stdout);
        printf("\n");
        break;
      default:
        printf("%d %d %d %08x ", rank, line, length, checksum(text));
        for (int i = 0; i < length; ++i) putchar(text[i]);
        putchar('\n');
        fflush(stdout);
    }
  }
  long printed = lines, all = 0;
  MPI_Reduce(&printed, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("all: %ld lines of %d ranks\n", all, size);
  MPI_Finalize();
  return 0;
}
