// SPDX-License-Identifier: Apache-2.0
// Collective operations that a seed chooses: blocking and nonblocking ones of several communicators
// are in progress together, and each rank completes them in an order of its own.
// usage: random_collectives [SEED [ROUNDS]]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { most = 6, kinds = 12, longest = 700 };

struct operation {
  MPI_Request request;
  int* sent;
  int* received;
  int *counts, *places;
  int length;  // of `received`
};

static unsigned long state;
static MPI_Comm communicators[4];

static unsigned long next(unsigned long* from) {
  *from = *from * 6364136223846793005ul + 1442695040888963407ul;
  return *from >> 33;
}
static int below(int limit) { return (int)(next(&state) % (unsigned long)limit); }

/// x -> a x + b modulo 10007, as pairs: the composition does not commute.
static void compose(void* input, void* in_out, int* count, MPI_Datatype* type) {
  int const* first = input;
  int* second = in_out;
  (void)type;
  for (int i = 0; i < 2 * *count; i += 2) {
    second[i + 1] = (second[i] * first[i + 1] + second[i + 1]) % 10007;
    second[i] = second[i] * first[i] % 10007;
  }
}

/// Begins an operation that all ranks of the communicator have drawn.
static void begin(struct operation* o, int kind, MPI_Comm in, int salt, MPI_Datatype pair,
                  MPI_Op op) {
  int own, size;
  MPI_Comm_rank(in, &own);
  MPI_Comm_size(in, &size);
  int const n = below(4) == 0 ? longest : below(9), root = below(size);
  int const room = 2 * (n + 1) * size;
  o->request = MPI_REQUEST_NULL;
  o->sent = malloc(sizeof(int) * (size_t)room);
  o->received = malloc(sizeof(int) * (size_t)room);
  o->counts = malloc(sizeof(int) * (size_t)size);
  o->places = malloc(sizeof(int) * (size_t)size);
  o->length = room;
  for (int i = 0; i < room; i++) {
    o->sent[i] = (own * 131 + i * 17 + salt * 1009) % 10007;
    o->received[i] = kind == 0 && own == root ? o->sent[i] : -1;
  }
  for (int i = 0; i < size; i++) {  // the same in both directions
    o->counts[i] = (own + i + salt) % (n + 1);
    o->places[i] = i * (n + 1);
  }
  int* const s = o->sent;
  int* const r = o->received;
  MPI_Request* const q = &o->request;
  switch (kind) {
    case 0:
      MPI_Ibcast(r, n, MPI_INT, root, in, q);
      break;
    case 1:
      MPI_Ireduce(s, r, n, pair, op, root, in, q);
      break;
    case 2:
      MPI_Iallreduce(s, r, n, pair, op, in, q);
      break;
    case 3:
      MPI_Igather(s, n, MPI_INT, r, n, MPI_INT, root, in, q);
      break;
    case 4:
      MPI_Iscatter(s, n, MPI_INT, r, n, MPI_INT, root, in, q);
      break;
    case 5:
      MPI_Iallgather(s, n, MPI_INT, r, n, MPI_INT, in, q);
      break;
    case 6:
      MPI_Ialltoallv(s, o->counts, o->places, MPI_INT, r, o->counts, o->places, MPI_INT, in, q);
      break;
    case 7:
      MPI_Ireduce_scatter_block(s, r, n, pair, op, in, q);
      break;
    case 8:
      MPI_Iscan(s, r, n, pair, op, in, q);
      break;
    case 9:
      MPI_Ibarrier(in, q);
      break;
    case 10:
      MPI_Allreduce(s, r, n, MPI_INT, MPI_MAX, in);
      break;
    default:
      MPI_Alltoall(s, n, MPI_INT, r, n, MPI_INT, in);
      break;
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int own, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  state = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
  int const rounds = argc > 2 ? atoi(argv[2]) : 12, wraps = 1;
  unsigned long own_state = (unsigned long)own + 99, sum = 0;
  communicators[0] = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -own, &communicators[2]);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &wraps, 0, &communicators[3]);
  MPI_Op op;
  MPI_Op_create(compose, 0, &op);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);

  for (int round = 0; round < rounds; round++) {
    struct operation runs[most];
    MPI_Request requests[most];
    int const many = 1 + below(most);
    for (int i = 0; i < many; i++) {
      int const kind = below(kinds);
      begin(&runs[i], kind, communicators[below(4)], round * most + i, pair, op);
      requests[i] = runs[i].request;
    }
    int ends[2] = {-1, -1};  // of the neighbours
    MPI_Neighbor_allgather(&own, 1, MPI_INT, ends, 1, MPI_INT, communicators[3]);
    sum = sum * 31 + (unsigned long)(ends[0] + ends[1]);
    for (int i = 0; i < many; i++) {
      int index = (int)(next(&own_state) % (unsigned long)many), flag = 0;
      if (next(&own_state) % 2 == 0)
        MPI_Wait(&requests[index], MPI_STATUS_IGNORE);
      else
        MPI_Testany(many, requests, &index, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < many; i++) {
      for (int k = 0; k < runs[i].length; k++)
        sum = sum * 31 + (unsigned long)(runs[i].received[k] + 2);
      free(runs[i].sent);
      free(runs[i].received);
      free(runs[i].counts);
      free(runs[i].places);
    }
  }
  printf("rank %d: %lx\n", own, sum);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  for (int i = 1; i < 4; i++) MPI_Comm_free(&communicators[i]);
  MPI_Finalize();
  return 0;
}
