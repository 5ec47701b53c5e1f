// SPDX-License-Identifier: Apache-2.0
// Long messages between processes: in both directions at once, from many senders to one receiver,
// beside short ones in their order, probed, matched, with gaps, to the sender itself, beside a
// receive that is cancelled, and beside collective operations that have begun.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG = 200000, ROUNDS = 6, GAPS = 30000 };

static int rank, size, wrong;

static int value(int sender, int round, int i) { return sender * 7919 + round * 104729 + i; }

static void fill(int* data, int count, int sender, int round) {
  for (int i = 0; i < count; ++i) data[i] = value(sender, round, i);
}
static void check(int const* data, int count, int sender, int round) {
  for (int i = 0; i < count; ++i) wrong += data[i] != value(sender, round, i);
}

/// All send to all, also to themselves, before anybody waits.
static void send_in_all_directions(int* out, int* in) {
  MPI_Request* all = malloc(2 * (size_t)size * sizeof(MPI_Request));
  fill(out, LONG, rank, 0);
  for (int i = 0; i < size; ++i)
    MPI_Irecv(in + i * LONG, LONG, MPI_INT, i, 1, MPI_COMM_WORLD, &all[i]);
  for (int i = 0; i < size; ++i)
    MPI_Isend(out, LONG, MPI_INT, (rank + i) % size, 1, MPI_COMM_WORLD, &all[size + i]);
  MPI_Waitall(2 * size, all, MPI_STATUSES_IGNORE);
  for (int i = 0; i < size; ++i) check(in + i * LONG, LONG, i, 0);
  // The same with receives that begin late.
  for (int i = 0; i < size; ++i)
    MPI_Isend(out, LONG, MPI_INT, (rank + i) % size, 2, MPI_COMM_WORLD, &all[i]);
  for (int i = size; i-- != 0;)
    MPI_Irecv(in + i * LONG, LONG, MPI_INT, i, 2, MPI_COMM_WORLD, &all[size + i]);
  MPI_Waitall(2 * size, all, MPI_STATUSES_IGNORE);
  for (int i = 0; i < size; ++i) check(in + i * LONG, LONG, i, 0);
  free(all);
}

/// All send short and long messages of one tag to the last rank, which receives from anybody.
static void send_to_last(int* out, int* in) {
  int const last = size - 1;
  if (rank != last) {
    for (int round = 0; round < ROUNDS; ++round) {
      int const count = round % 2 == 0 ? LONG - round : 1 + 900 * (round / 2);
      fill(out, count, rank, round);
      MPI_Send(out, count, MPI_INT, last, 3, MPI_COMM_WORLD);
    }
    return;
  }
  int* rounds = calloc((size_t)size, sizeof(int));
  for (int i = 0; i < ROUNDS * last; ++i) {
    MPI_Status status;
    int count = 0;
    if (i % 3 == 0) {
      MPI_Recv(in, LONG, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
    } else if (i % 3 == 1) {
      MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
      MPI_Recv(in, LONG, MPI_INT, status.MPI_SOURCE, 3, MPI_COMM_WORLD, &status);
    } else {
      MPI_Message matched;
      MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &matched, &status);
      MPI_Mrecv(in, LONG, MPI_INT, &matched, &status);
    }
    MPI_Get_count(&status, MPI_INT, &count);
    int const round = rounds[status.MPI_SOURCE]++;
    wrong += count != (round % 2 == 0 ? LONG - round : 1 + 900 * (round / 2));
    check(in, count, status.MPI_SOURCE, round);
  }
  free(rounds);
}

/// Every second element goes to a receive of neighbouring elements, and back.
static void send_gaps(int* out, int* in) {
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Datatype gaps;
  MPI_Type_vector(GAPS, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  for (int i = 0; i < GAPS; ++i) {
    out[2 * i] = value(rank, 1, i);
    out[2 * i + 1] = in[2 * i] = in[2 * i + 1] = -1;
  }
  MPI_Sendrecv(out, 1, gaps, next, 4, in, GAPS, MPI_INT, previous, 4, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check(in, GAPS, previous, 1);
  MPI_Sendrecv(in, GAPS, MPI_INT, previous, 5, out, 1, gaps, next, 5, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < GAPS; ++i) wrong += out[2 * i] != value(rank, 1, i) || out[2 * i + 1] != -1;
  MPI_Type_free(&gaps);
}

/// A receive that nobody sends to is cancelled while a long message arrives.
static void cancel(int* out, int* in) {
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Request unmatched, sent;
  MPI_Status status;
  int never = 0, is_cancelled = 0;
  MPI_Irecv(&never, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, &unmatched);
  fill(out, LONG, rank, 2);
  MPI_Isend(out, LONG, MPI_INT, next, 6, MPI_COMM_WORLD, &sent);
  MPI_Cancel(&unmatched);
  MPI_Recv(in, LONG, MPI_INT, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&unmatched, &status);
  MPI_Test_cancelled(&status, &is_cancelled);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  wrong += is_cancelled == 0;
  check(in, LONG, previous, 2);
}

/// Long collective operations that have begun, two of them alike, go on beside a long message.
static void send_beside_collectives(int* out, int* in) {
  int const next = (rank + 1) % size, previous = (rank + size - 1) % size, count = LONG / 4;
  int *const first = in + LONG, *const second = first + count, *const sum = second + count;
  MPI_Request all[5];
  for (int i = 0; i < count; ++i) {
    first[i] = rank == 0 ? value(0, 3, i) : -1;
    second[i] = rank == size - 1 ? value(1, 3, i) : -1;
    sum[i] = rank + i;
  }
  fill(out, LONG, rank, 3);
  MPI_Ibcast(first, count, MPI_INT, 0, MPI_COMM_WORLD, &all[0]);
  MPI_Ibcast(second, count, MPI_INT, size - 1, MPI_COMM_WORLD, &all[1]);
  MPI_Iallreduce(MPI_IN_PLACE, sum, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[2]);
  MPI_Isend(out, LONG, MPI_INT, next, 8, MPI_COMM_WORLD, &all[3]);
  MPI_Irecv(in, LONG, MPI_INT, previous, 8, MPI_COMM_WORLD, &all[4]);
  MPI_Waitall(5, all, MPI_STATUSES_IGNORE);
  check(in, LONG, previous, 3);
  check(first, count, 0, 3);
  check(second, count, 1, 3);
  for (int i = 0; i < count; ++i) wrong += sum[i] != size * (size - 1) / 2 + size * i;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int* out = malloc(LONG * sizeof(int));
  int* in = malloc((size_t)size * LONG * sizeof(int));
  if (out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  send_in_all_directions(out, in);
  send_to_last(out, in);
  send_gaps(out, in);
  cancel(out, in);
  send_beside_collectives(out, in);
  free(out);
  free(in);
  printf("rank %d: %d wrong\n", rank, wrong);
  MPI_Finalize();
  return wrong != 0;
}
