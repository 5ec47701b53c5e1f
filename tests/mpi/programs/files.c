// SPDX-License-Identifier: Apache-2.0
// Files: rank 0 writes an input file, which all ranks read in different ways. Then each rank writes
// a file of its own, and its neighbour reads that.
// usage: files [FOLDER]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 50 };

static int rank, size;

static void fail_with(char const* what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static FILE* opened(char const* name, char const* mode) {
  FILE* const file = fopen(name, mode);
  if (file == NULL) fail_with(name);
  return file;
}

/// Rank 0 finds a name that no other run uses, and writes the input.
static void make_input(char const* folder, char* name) {
  FILE* file = NULL;
  for (int i = 0; rank == 0 && file == NULL; ++i) {
    snprintf(name, FILENAME_MAX, "%s/quarry_files_%d", folder, i);
    file = fopen(name, "wx");  // fails if the file exists
    if (file == NULL && i == 1000) fail_with(name);
  }
  if (rank == 0) {
    fprintf(file, "# rows of numbers\n%d\n", rows);
    for (int i = 0; i < rows; ++i) fprintf(file, "%d %.4f row%d\n", i, i / 8.0, i * i);
    fclose(file);
  }
  MPI_Bcast(name, FILENAME_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void read_rows(char const* name) {
  char line[100], word[20];
  int count = 0, i = 0, wrong = 0;
  double value = 0.0, sum = 0.0;
  FILE* const file = opened(name, "r");
  if (fgets(line, sizeof line, file) == NULL || line[0] != '#') ++wrong;
  if (fscanf(file, "%d", &count) != 1) ++wrong;
  for (int k = 0; k < count; ++k) {
    if (fscanf(file, "%d %lf %19s", &i, &value, word) != 3 || i != k) ++wrong;
    sum += value;
    wrong += atoi(word + 3) != k * k;
  }
  wrong += fscanf(file, "%d", &i) != EOF || !feof(file);
  rewind(file);
  int characters = 0, lines = 0;
  for (int c = fgetc(file); c != EOF; c = fgetc(file)) {
    ++characters;
    lines += c == '\n';
  }
  printf("rank %d: %d rows, sum %.3f, %d lines, %d characters, %d wrong\n", rank, count, sum, lines,
         characters, wrong);
  fclose(file);
}

static void exchange_files(char const* name) {
  char own_name[FILENAME_MAX + 20], other_name[FILENAME_MAX + 20];
  double values[16], read[16] = {0};
  for (int i = 0; i < 16; ++i) values[i] = rank * 100.0 + i;
  snprintf(own_name, sizeof own_name, "%s.%d", name, rank);
  FILE* file = opened(own_name, "wb");
  size_t const written = fwrite(values, sizeof *values, 16, file);
  fclose(file);
  file = opened(own_name, "ab");
  fprintf(file, "end of %d\n", rank);
  fclose(file);
  MPI_Barrier(MPI_COMM_WORLD);
  int const other = (rank + 1) % size;
  char tail[40] = "";
  snprintf(other_name, sizeof other_name, "%s.%d", name, other);
  file = opened(other_name, "rb");
  fseek(file, 8 * (long)sizeof *read, SEEK_SET);
  size_t const got = fread(read, sizeof *read, 8, file);
  long const place = ftell(file);
  if (fgets(tail, sizeof tail, file) == NULL) tail[0] = '\0';
  fseek(file, -4, SEEK_END);
  int const near_end = fgetc(file);
  fclose(file);
  printf("rank %d: wrote %zu, read %zu up to %ld: %g, %d, %s", rank, written, got, place, read[7],
         near_end >= '0', tail);
  MPI_Barrier(MPI_COMM_WORLD);
  if (remove(own_name) != 0) fail_with(own_name);
}

int main(int argc, char** argv) {
  static char name[FILENAME_MAX];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char const* const folder = argc > 1 ? argv[1] : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  make_input(folder, name);
  read_rows(name);
  exchange_files(name);
  if (rank == 0) {
    printf("removed: %d", remove(name));
    printf(", gone: %d\n", fopen(name, "r") == NULL);
  }
  MPI_Finalize();
  return 0;
}
