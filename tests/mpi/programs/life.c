// SPDX-License-Identifier: Apache-2.0
// The game of life on a torus. Each rank has a band of rows, and a glider crosses all bands.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { width = 20, height = 20 };

static unsigned char board[height + 2][width];  // rows 1 to `rows` are own
static unsigned char successor[height + 2][width];
static int first_row, rows;

static const char *const pattern[] = {
    ".#........", "..#.....##", "###.....##", "..........", "....###...", "..........",
};

static int is_alive(int y, int x) {
  int const pattern_rows = (int)(sizeof pattern / sizeof pattern[0]);
  return y < pattern_rows && x < (int)strlen(pattern[y]) && pattern[y][x] == '#';
}

static int neighbours_of(int y, int x) {
  int const left = (x + width - 1) % width, right = (x + 1) % width;
  int count = board[y][left] + board[y][right];
  for (int dy = -1; dy <= 1; dy += 2)
    count += board[y + dy][left] + board[y + dy][x] + board[y + dy][right];
  return count;
}

static void step(int up, int down) {
  MPI_Request requests[4];
  MPI_Irecv(board[0], width, MPI_UNSIGNED_CHAR, up, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(board[rows + 1], width, MPI_UNSIGNED_CHAR, down, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(board[rows], width, MPI_UNSIGNED_CHAR, down, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(board[1], width, MPI_UNSIGNED_CHAR, up, 1, MPI_COMM_WORLD, &requests[3]);
  for (int done = 0; done < 4; ++done) {
    int index;
    MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
  }
  for (int y = 1; y <= rows; ++y)
    for (int x = 0; x < width; ++x) {
      int const count = neighbours_of(y, x);
      successor[y][x] = count == 3 || (count == 2 && board[y][x]);
    }
  memcpy(board[1], successor[1], sizeof board[0] * (size_t)rows);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const generations = argc > 1 ? atoi(argv[1]) : 30;
  if (size > height) {
    if (rank == 0) fprintf(stderr, "at most %d ranks\n", height);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  first_row = height * rank / size;
  rows = height * (rank + 1) / size - first_row;
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < width; ++x) board[y + 1][x] = (unsigned char)is_alive(first_row + y, x);
  for (int i = 0; i < generations; ++i) step((rank + size - 1) % size, (rank + 1) % size);

  int alive = 0, total;
  for (int y = 1; y <= rows; ++y) {
    char line[width + 1];
    for (int x = 0; x < width; ++x) {
      line[x] = board[y][x] ? '#' : '.';
      alive += board[y][x];
    }
    line[width] = '\0';
    printf("%02d %s\n", first_row + y - 1, line);
  }
  MPI_Reduce(&alive, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("generation %d: %d cells are alive\n", generations, total);
  MPI_Finalize();
  return 0;
}
