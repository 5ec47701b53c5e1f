// SPDX-License-Identifier: Apache-2.0
// In each round a rank receives from any rank with any tag. Messages of one rank keep their order,
// whatever their sizes and modes.
// usage: random_senders [SEED [SEEDS]]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { rounds = 20, most = 6, most_ranks = 64, longest = 5000 };
enum { RECV, PROBE, IPROBE, IRECV, ways_to_receive };

static unsigned long state;
static int own, size, wrong;

static int below(int limit) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (int)((state >> 33) % (unsigned long)limit);
}

static int word(int from, int tag, int place) { return from * 7919 + tag * 104729 + place; }

/// Begins to send one message.
static void send(int* data, int count, int to, int tag, int how, MPI_Request* request) {
  for (int i = 0; i < count; i++) data[i] = word(own, tag, i);
  *request = MPI_REQUEST_NULL;
  if (how == 0) MPI_Send(data, count, MPI_INT, to, tag, MPI_COMM_WORLD);
  if (how == 1) MPI_Ssend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD);
  if (how == 2) MPI_Isend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
  if (how == 3) MPI_Issend(data, count, MPI_INT, to, tag, MPI_COMM_WORLD, request);
}

static MPI_Status receive(int* data, int way) {
  MPI_Status status;
  MPI_Request request;
  int from = MPI_ANY_SOURCE, tag = MPI_ANY_TAG, found = 0;
  if (way == PROBE) MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
  while (way == IPROBE && !found) MPI_Iprobe(from, tag, MPI_COMM_WORLD, &found, &status);
  if (way == PROBE || way == IPROBE) from = status.MPI_SOURCE, tag = status.MPI_TAG;
  if (way != IRECV) {
    MPI_Recv(data, longest, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
  } else {
    MPI_Irecv(data, longest, MPI_INT, from, tag, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
  }
  return status;
}

static void run_round(void) {
  static int const usual[] = {0, 1, 13, 14, 1024, 1025};  // around 52 bytes and 4 KiB
  static int data[most][longest], got[longest], counts[most_ranks][most], sent[most_ranks];
  int seen[most_ranks] = {0}, hows[most_ranks][most], total = 0, root = below(size);
  MPI_Request requests[most];
  for (int rank = 0; rank < size; rank++) {
    total += sent[rank] = below(most + 1);
    for (int i = 0; i < most; i++) {
      counts[rank][i] = below(8) == 0 ? below(longest) : usual[below(6)];
      hows[rank][i] = below(2) + (rank == root || below(2) == 0 ? 2 : 0);  // root: non-blocking
    }
  }
  for (int i = 0; i < sent[own]; i++)
    send(data[i], counts[own][i], root, i, hows[own][i], &requests[i]);
  for (int i = 0; own == root && i < total; i++) {
    MPI_Status const status = receive(got, below(ways_to_receive));
    int const from = status.MPI_SOURCE, tag = seen[from]++;
    int count = -1, is_right = status.MPI_TAG == tag;
    MPI_Get_count(&status, MPI_INT, &count);
    is_right = is_right && tag < sent[from] && count == counts[from][tag];
    for (int k = 0; is_right && k < count; k++) is_right = got[k] == word(from, tag, k);
    if (!is_right)
      printf("rank %d: tag %d from %d with %d words instead of %d with %d\n", own, status.MPI_TAG,
             from, count, tag, counts[from][tag % most]);
    wrong += !is_right;
  }
  MPI_Waitall(sent[own], requests, MPI_STATUSES_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);  // the next root may be the same rank
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > most_ranks) MPI_Abort(MPI_COMM_WORLD, 2);
  int const first = argc > 1 ? atoi(argv[1]) : 1, seeds = argc > 2 ? atoi(argv[2]) : 3;
  for (int seed = first; seed < first + seeds; seed++) {
    for (int round = 0; round < rounds; round++) {
      state = (unsigned long)(seed * rounds + round) * 0x9e3779b97f4a7c15ul;
      run_round();
    }
    printf("seed %d, rank %d: %d wrong\n", seed, own, wrong);
  }
  MPI_Finalize();
  return wrong != 0;
}
