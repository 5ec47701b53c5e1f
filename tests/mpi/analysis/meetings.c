// SPDX-License-Identifier: Apache-2.0
// Where ranks could wait for all others before they allocate.
#include <mpi.h>
#include <stdlib.h>

#define W MPI_COMM_WORLD

/// Rank 1 receives before it allocates what rank 0 sends after it has allocated.
static void order(int rank, int size) {
  int token = 1;
  if (rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 0, W, MPI_STATUS_IGNORE);
  free(malloc(64));  // CU; not sync-safe after MPI_Recv(&token
  if (rank == 0 && size > 1) MPI_Send(&token, 1, MPI_INT, 1, 0, W);
  free(malloc(64));  // CU; not sync-safe after MPI_
}

static void operations(int rank, int size, int n, double* data) {
  MPI_Barrier(W);
  free(malloc(8));  // CU; sync-safe
  MPI_Bcast(data, 1, MPI_DOUBLE, 0, W);
  free(malloc(8));  // CU; not sync-safe after MPI_Bcast(data
  MPI_Allreduce(MPI_IN_PLACE, data, 1, MPI_DOUBLE, MPI_SUM, W);
  free(malloc(8));  // CU; sync-safe
  MPI_Reduce(data, data + 1, 1, MPI_DOUBLE, MPI_SUM, 0, W);
  free(malloc((size_t)rank + 8));  // CV; not sync-safe after MPI_Reduce(data
  MPI_Allgather(data, 1, MPI_DOUBLE, data + 64, 1, MPI_DOUBLE, W);
  free(malloc((size_t)rank + 8));  // CV; sync-safe
  MPI_Scan(data, data + 1, 1, MPI_DOUBLE, MPI_SUM, W);
  free(malloc(8));  // CU; not sync-safe after MPI_Scan(data
  MPI_Alltoall(data, 1, MPI_DOUBLE, data + 64, 1, MPI_DOUBLE, W);
  free(malloc(8));                                           // CU; sync-safe
  MPI_Allreduce(data, data + 8, n, MPI_DOUBLE, MPI_SUM, W);  // n may be 0
  free(malloc(8));  // CU; not sync-safe after MPI_Allreduce(data, data + 8, n
  MPI_Barrier(W);
  MPI_Request requests[2];
  MPI_Irecv(data, 1, MPI_DOUBLE, (rank + 1) % size, 0, W, &requests[0]);
  MPI_Isend(data + 1, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, W, &requests[1]);
  free(malloc(8));  // CU; sync-safe
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  free(malloc(8));  // CU; not sync-safe after MPI_Waitall(2
}

static void wait_for_flag(int rank, int size) {
  int there = 0, token = 0;
  MPI_Barrier(W);
  if (rank > 0)
    while (!there) MPI_Iprobe(0, 5, W, &there, MPI_STATUS_IGNORE);
  free(malloc(8));  // CU; not sync-safe after MPI_Iprobe(0
  if (rank == 0)
    for (int i = 1; i < size; ++i) MPI_Send(&token, 1, MPI_INT, i, 5, W);
  if (rank > 0) MPI_Recv(&token, 1, MPI_INT, 0, 5, W, MPI_STATUS_IGNORE);
}

static void loops(int rank, int size) {
  int token = 0;
  MPI_Barrier(W);
  free(malloc(8));  // CU; sync-safe
  for (int i = 0; i < size; ++i) {
    free(malloc(8));  // CU; not sync-safe after MPI_Sendrecv_replace(&token
    MPI_Sendrecv_replace(&token, 1, MPI_INT, (rank + 1) % size, 0, (rank + size - 1) % size, 0, W,
                         MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < size; ++i) {
    MPI_Barrier(W);
    free(malloc(8));  // CU; sync-safe
    MPI_Bcast(&token, 1, MPI_INT, i, W);
  }
  if (size > 2) MPI_Barrier(W);
  free(malloc(8));  // CU; not sync-safe after MPI_Bcast(&token
}

static void parts(int rank, double* data) {
  MPI_Comm half, same;
  MPI_Comm_dup(W, &same);
  MPI_Comm_split(W, rank % 2, rank, &half);
  MPI_Barrier(W);
  free(malloc(8));  // CU; sync-safe
  MPI_Barrier(half);
  free(malloc(8));  // CU; not sync-safe after MPI_Barrier(half
  MPI_Barrier(same);
  free(malloc(8));  // CU; sync-safe
  if (rank % 2) MPI_Allreduce(data, data + 1, 1, MPI_DOUBLE, MPI_SUM, half);
  free(malloc(8));  // CU; not sync-safe after MPI_Allreduce(data, data + 1, 1
  MPI_Comm_free(&half);
  MPI_Comm_free(&same);
  MPI_Barrier(W);
}

static int depth_first(int depth) {
  int token = depth;
  if (depth == 0) return 0;
  MPI_Bcast(&token, 1, MPI_INT, 0, W);
  return depth_first(depth - 1);
}

static int meet_often(int depth) {
  MPI_Barrier(W);
  return depth == 0 ? 0 : meet_often(depth - 1) + 1;
}

static int in_recursion(int depth) {
  free(malloc(24));  // CU; not sync-safe after MPI_Bcast(&token, 1, MPI_INT, depth
  int token = depth;
  MPI_Bcast(&token, 1, MPI_INT, depth % 2, W);
  return depth == 0 ? 0 : in_recursion(depth - 1);
}

static void functions(void) {
  free(malloc(8));  // CU; sync-safe
  depth_first(3);
  free(malloc(8));  // CU; not sync-safe after MPI_Bcast(&token, 1, MPI_INT, 0
  meet_often(3);
  free(malloc(8));  // CU; sync-safe
  in_recursion(3);
  MPI_Barrier(W);
}

static int compare(void const* a, void const* b) { return *(int const*)a - *(int const*)b; }

static void calls(int rank, int* numbers) {
  int (*volatile unknown)(void const*, void const*) = compare;
  qsort(numbers, 4, sizeof(int), compare);
  free(malloc(8));  // CU; sync-safe
  unknown(numbers, numbers + 1);
  free(malloc(8));  // CU; not sync-safe after a call through a pointer
  MPI_Barrier(W);
  if (rank > 5) {  // who comes here waits, and the job ends
    MPI_Recv(numbers, 1, MPI_INT, 0, 9, W, MPI_STATUS_IGNORE);
    MPI_Abort(W, 1);
  }
  free(malloc(8));  // CU; not sync-safe after MPI_Recv(numbers
  MPI_Barrier(W);
  if (rank > 5) MPI_Abort(W, 1);
  free(malloc(8));  // CU; sync-safe
  char* p;
  if (rank % 2)
    p = malloc(48);  // CU: one call before the branch; sync-safe
  else
    p = malloc(48);  // CU: one call before the branch; sync-safe
  free(p);
}

int main(int argc, char** argv) {
  int rank, size;
  int numbers[4] = {4, 3, 2, 1};
  free(malloc(8));  // CU; sync-safe
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  double* data = calloc(128, sizeof(double));  // CU; sync-safe
  order(rank, size);
  operations(rank, size, argc, data);
  wait_for_flag(rank, size);
  loops(rank, size);
  parts(rank, data);
  functions();
  calls(rank % 5, numbers);
  free(data);
  MPI_Finalize();
  free(malloc(8));  // CU; not sync-safe after MPI_Finalize
  return 0;
}
