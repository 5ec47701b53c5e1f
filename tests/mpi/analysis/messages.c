// SPDX-License-Identifier: Apache-2.0
// Values that come from messages and from collective operations.
#include <mpi.h>
#include <stdlib.h>

static void from_neighbours(int rank, int size) {
  int const next = (rank + 1) % size;
  int const before = (rank + size - 1) % size;
  int n = 6, mine = rank + 1, sent = 5;
  MPI_Status status;
  MPI_Sendrecv(&mine, 1, MPI_INT, next, 0, &n, 1, MPI_INT, before, 0, MPI_COMM_WORLD, &status);
  free(malloc((size_t)n));     // CV `n` from MPI_Sendrecv
  free(malloc((size_t)mine));  // CV `rank` from MPI_Comm_rank
  int count;
  MPI_Get_count(&status, MPI_INT, &count);
  free(malloc((size_t)count));  // CV `count` from MPI_Get_count
  MPI_Request requests[2];
  MPI_Irecv(&n, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&sent, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]);
  free(malloc(64));  // CU
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  free(malloc((size_t)n));     // CV `n` from MPI_Irecv
  free(malloc((size_t)sent));  // CU
}

/// All ranks reach the allocation, although rank 0 waits for the other before it.
static void in_order(int rank) {
  int n = 1;
  if (rank == 1) MPI_Recv(&n, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  void* const p = malloc(32);  // CU
  if (rank == 0) MPI_Send(&n, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
  free(p);
}

static void probed(int rank) {
  if (rank == 0) {
    int const values[3] = {1, 2, 3};
    MPI_Send(values, 3, MPI_INT, 1, 3, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Status status;
    int count;
    MPI_Probe(0, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    int* const values = malloc(sizeof(int) * (size_t)count);
    // NO by `if (rank == 1)`: `rank` from MPI_Comm_rank
    MPI_Recv(values, count, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(values);
  }
}

static void broadcast(int rank) {
  int n = rank + 3;
  free(malloc((size_t)n));  // CV `rank` from MPI_Comm_rank
  MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)n));  // CU
  n += rank;
  free(malloc((size_t)n));  // CV from MPI_Comm_rank
  int only_some = rank;
  if (rank >= 0) MPI_Bcast(&only_some, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)only_some + 1));  // CV from MPI_Comm_rank
  double three[3] = {rank, 2.0 * rank, 7};
  MPI_Bcast(three, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  free(malloc((size_t)three[1] + 1));  // CU
  double two[3] = {rank, 2.0 * rank, rank};
  MPI_Bcast(two, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  free(malloc((size_t)two[2] + 1));  // CV `rank` from MPI_Comm_rank
}

static void reductions(int rank, int size) {
  int mine = rank + 1, sum = 0, maximum = rank;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(malloc((size_t)sum));  // CU
  MPI_Allreduce(MPI_IN_PLACE, &maximum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  free(malloc((size_t)maximum));  // CU
  sum = 1;
  MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  free(malloc((size_t)sum));  // CV `sum` from MPI_Reduce
  MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(malloc((size_t)sum));  // CV `sum` from MPI_Scan
  sum = 1;
  MPI_Exscan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(malloc((size_t)sum));  // CV `sum` from MPI_Exscan
  int counts[64];
  MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (int i = 0; i < size; ++i) total += counts[i];
  free(malloc((size_t)total));                          // CU
  free(malloc((size_t)counts[0]));                      // CU
  free(malloc((size_t)counts[rank]));                   // CV `rank` from MPI_Comm_rank
  int* const all = malloc(sizeof(int) * (size_t)size);  // CU
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  free(malloc((size_t)all[size - 1]));                      // CU
  free(malloc((size_t)all[rank]));                          // CV `rank` from MPI_Comm_rank
  int* const gathered = calloc((size_t)size, sizeof(int));  // CU
  MPI_Gather(&mine, 1, MPI_INT, gathered, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)gathered[0] + 1));  // CV from MPI_Gather
  int part;
  MPI_Scatter(all, 1, MPI_INT, &part, 1, MPI_INT, 0, MPI_COMM_WORLD);
  free(malloc((size_t)part));                                 // CV `part` from MPI_Scatter
  int* const exchanged = malloc(sizeof(int) * (size_t)size);  // CU
  MPI_Alltoall(all, 1, MPI_INT, exchanged, 1, MPI_INT, MPI_COMM_WORLD);
  free(malloc((size_t)exchanged[0]));  // CV from MPI_Alltoall
  free(all);
  free(gathered);
  free(exchanged);
}

/// All ranks stop in the same step, because all of them get the sum.
static void until_all_are_done(int rank) {
  int done = 0, step = 0;
  while (!done) {
    free(malloc((size_t)step + 1));  // CU
    int const mine = ++step > rank;
    MPI_Allreduce(&mine, &done, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  }
  free(malloc((size_t)step));  // CU
  double error = 1 + rank, largest;
  do {
    error /= 2;
    MPI_Allreduce(&error, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    free(malloc(8));  // CU
  } while (largest > 0.1);
  while (error > 0.01) {
    error /= 2;
    free(malloc(8));  // NO by `while (error > 0.01)`: from MPI_Comm_rank
  }
}

static void add(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  int* const scratch = malloc(sizeof(int) * (size_t)*count);  // NO: add is called through a pointer
  for (int i = 0; i < *count; ++i) ((int*)out)[i] += scratch[i] = ((int*)in)[i];
  free(scratch);
}

static void own_operation(int rank) {
  MPI_Op operation;
  int sum;
  MPI_Op_create(add, 1, &operation);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
  MPI_Op_free(&operation);
  free(malloc((size_t)sum));  // CU
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  from_neighbours(rank, size);
  in_order(rank);
  probed(rank);
  broadcast(rank);
  reductions(rank, size);
  until_all_are_done(rank);
  own_operation(rank);
  MPI_Finalize();
  return 0;
}
