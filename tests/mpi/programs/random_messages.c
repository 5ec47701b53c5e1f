// SPDX-License-Identifier: Apache-2.0
// Messages that a seed chooses: communicators, modes, types, sizes, wildcards, probes, truncation.
// All ranks draw the same messages and each does its part of them in this order. So no blocking
// call is part of a deadlock, and every message and status is known in advance.
// usage: random_messages [SEED [SEEDS]]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rounds = 3, messages = 40, kinds_of_communicators = 4, ready_tag = 90 };
enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, modes };
enum { RECV, IRECV, PROBE, IPROBE, ways_to_receive };
enum { CHAR, INT, DOUBLE, PAIRS, FIVE, types };  // PAIRS: three of int, with gaps; FIVE: of short

struct message {
  int number, from, to, in, tag, type, count, mode, way;
  int returns_soon, is_exchange, has_null_peer, any_source, any_tag, is_truncated;
};

static int const sizes[types] = {1, 4, 8, 24, 10}, extents[types] = {1, 4, 8, 40, 10};
static unsigned long state, checksum;
static int own, size, wrong, pending;
static MPI_Comm communicators[kinds_of_communicators];
static MPI_Request requests[2 * messages];
static struct message const* received[2 * messages];  // by the requests; NULL: sent
static char* buffers[2 * messages];

static int below(int limit) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (int)((state >> 33) % (unsigned long)limit);
}

/// The rank of a rank of the world in a communicator.
static int rank_in(int in, int rank) {
  return in == 2 ? size - 1 - rank : in == 3 ? rank / 2 : rank;
}

static MPI_Datatype new_type(int type) {
  MPI_Datatype made = type == CHAR ? MPI_CHAR : type == INT ? MPI_INT : MPI_DOUBLE;
  if (type == PAIRS) MPI_Type_vector(3, 2, 4, MPI_INT, &made);
  if (type == FIVE) MPI_Type_contiguous(5, MPI_SHORT, &made);
  if (type >= PAIRS) MPI_Type_commit(&made);
  return made;
}

/// The bytes of a message's buffer, and one more that stays as it is.
static size_t bytes_of(struct message const* m) {
  return (size_t)(m->count * extents[m->type]) + 1;
}

/// A buffer with the elements that `sender` sends; without them if it is negative.
static char* new_buffer(struct message const* m, int sender) {
  char* const data = memset(malloc(bytes_of(m)), 0x5a, bytes_of(m));
  for (int k = 0; sender >= 0 && k < m->count * sizes[m->type]; k++) {
    int const place = k % sizes[m->type], gaps = m->type == PAIRS ? place / 8 * 8 : 0;
    data[k / sizes[m->type] * extents[m->type] + place + gaps] =
        (char)((unsigned)(m->number * 977 + sender * 31 + k) * 2654435761u >> 13);
  }
  return data;
}

/// Checks what was received, and frees it.
static void check(struct message const* m, int sender, char* data, MPI_Status const* s, int error) {
  int got = 0;
  char* const expected = new_buffer(m, sender);
  if (!m->is_truncated) MPI_Get_count(s, MPI_BYTE, &got);
  int const is_right = m->is_truncated
                           ? error == MPI_ERR_TRUNCATE
                           : error == MPI_SUCCESS && got == m->count * sizes[m->type] &&
                                 memcmp(data, expected, bytes_of(m)) == 0;
  if (!is_right || s->MPI_SOURCE != rank_in(m->in, sender) || s->MPI_TAG != m->tag) {
    wrong++;
    printf("rank %d: message %d from %d is wrong: source %d, tag %d, %d bytes, error %d\n", own,
           m->number, sender, s->MPI_SOURCE, s->MPI_TAG, got, error);
  }
  checksum += (unsigned long)(m->number * 7 + s->MPI_SOURCE * 3 + s->MPI_TAG + error + 1) *
              (unsigned long)(got + 5);
  free(expected);
  free(data);
}

static MPI_Request* begin(struct message const* m, char* data) {
  received[pending] = m;
  buffers[pending] = data;
  return &requests[pending++];
}

/// Completes all operations, with one of the functions for it.
static void complete_all(int how) {
  MPI_Status s[2 * messages];
  int at[2 * messages], error = MPI_SUCCESS, count = 1;
  for (int left = pending; left > 0; left -= count) {
    count = 1;
    at[0] = left - 1;
    if (how == 0) error = MPI_Waitall(pending, requests, s);
    if (how == 1) error = MPI_Testall(pending, requests, &count, s);
    if (how == 2) error = MPI_Waitany(pending, requests, at, s);
    if (how == 3) error = MPI_Testany(pending, requests, at, &count, s);
    if (how == 4) error = MPI_Waitsome(pending, requests, &count, at, s);
    if (how == 5) error = MPI_Testsome(pending, requests, &count, at, s);
    if (how == 6) error = MPI_Wait(&requests[left - 1], s);
    if (how == 7) error = MPI_Test(&requests[left - 1], &count, s);
    if (how < 2 && count != 0) count = pending;
    for (int i = 0; i < count; i++) {
      int const k = how < 2 ? i : at[i];
      int result = error == MPI_ERR_IN_STATUS ? s[i].MPI_ERROR : error;
      if (result == MPI_ERR_PENDING) result = MPI_Wait(&requests[k], &s[i]);
      if (received[k] == NULL) free(buffers[k]);
      else check(received[k], received[k]->from, buffers[k], &s[i], result);
    }
  }
  pending = 0;
}

static void send(struct message const* m, int to) {
  static int (*const blocking[modes])(void const*, int, MPI_Datatype, int, int, MPI_Comm) = {
      MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
  static int (*const soon[modes])(void const*, int, MPI_Datatype, int, int, MPI_Comm,
                                  MPI_Request*) = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
  char* const data = new_buffer(m, own);
  MPI_Datatype type = new_type(m->type);
  MPI_Comm const in = communicators[m->in];
  if (m->returns_soon) soon[m->mode](data, m->count, type, to, m->tag, in, begin(NULL, data));
  else blocking[m->mode](data, m->count, type, to, m->tag, in);
  if (!m->returns_soon) free(data);
  if (m->type >= PAIRS) MPI_Type_free(&type);
}

static void receive(struct message const* m, int way) {
  int from = m->any_source ? MPI_ANY_SOURCE : rank_in(m->in, m->from), found = 0;
  int tag = m->any_tag ? MPI_ANY_TAG : m->tag, count = m->is_truncated ? m->count / 2 : m->count;
  MPI_Comm const in = communicators[m->in];
  MPI_Datatype type = new_type(m->type);
  char* const data = new_buffer(m, -1);
  MPI_Status status;
  if (way == PROBE) MPI_Probe(from, tag, in, &status);
  while (way == IPROBE && !found) MPI_Iprobe(from, tag, in, &found, &status);
  if (way >= PROBE) from = status.MPI_SOURCE, tag = status.MPI_TAG;
  if (way == IRECV) MPI_Irecv(data, count, type, from, tag, in, begin(m, data));
  else check(m, m->from, data, &status, MPI_Recv(data, count, type, from, tag, in, &status));
  if (m->type >= PAIRS) MPI_Type_free(&type);
}

/// Both ranks send to each other at once.
static void exchange(struct message const* m, int peer) {
  int const other = rank_in(m->in, peer), tag = m->any_tag ? MPI_ANY_TAG : m->tag;
  MPI_Datatype type = new_type(m->type);
  char *const sent = new_buffer(m, own), *const got = new_buffer(m, -1);
  MPI_Status s;
  int const error = MPI_Sendrecv(sent, m->count, type, other, m->tag, got, m->count, type, other,
                                 tag, communicators[m->in], &s);
  free(sent);
  check(m, peer, got, &s, error);
  if (m->type >= PAIRS) MPI_Type_free(&type);
}

static void draw(struct message* m, int number) {
  static int const usual[] = {0, 1, 51, 52, 53, 100, 4095, 4096, 4097, 65535, 65536, 69900};
  m->number = number;
  m->from = below(size), m->to = below(size);
  m->in = below(kinds_of_communicators);
  if (m->in == 3 && (m->from + m->to) % 2 != 0) m->in = 0;  // 3 has either even or odd ranks
  m->tag = below(3), m->type = below(types);
  m->count = usual[below(12)];
  m->count = (m->count + below(30)) / sizes[m->type];
  m->mode = below(modes), m->returns_soon = below(2), m->way = below(ways_to_receive);
  m->is_exchange = below(6) == 0, m->has_null_peer = below(20) == 0, m->any_tag = below(4) == 0;
  m->any_source = !m->is_exchange && !m->any_tag && below(4) == 0;
  if (m->any_source) m->tag = 100 + number;  // or another rank's message could match
  // Open MPI does not report it for messages to oneself, nor in communicators that are freed.
  m->is_truncated = below(6) == 0 && !m->is_exchange && m->from != m->to && m->in != 1 &&
                    m->type < PAIRS && m->count > 1;
}

static void take_part(struct message const* m) {
  int const from = rank_in(m->in, m->from), to = rank_in(m->in, m->to);
  MPI_Comm const in = communicators[m->in];
  if (m->has_null_peer) {
    MPI_Status s;
    send(m, MPI_PROC_NULL);
    MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, m->tag, communicators[0], &s);
    wrong += s.MPI_SOURCE != MPI_PROC_NULL || s.MPI_TAG != MPI_ANY_TAG;
  } else if (m->is_exchange) {
    if (own == m->from || own == m->to) exchange(m, own == m->from ? m->to : m->from);
  } else if (own == m->from && own == m->to) {
    int const sends_first = m->mode == BUFFERED || (m->returns_soon && m->mode != READY);
    if (!sends_first) receive(m, IRECV);
    send(m, to);
    if (sends_first) receive(m, m->way);
  } else if (own == m->to) {
    receive(m, m->mode == READY ? IRECV : m->way);
    if (m->mode == READY) MPI_Send(NULL, 0, MPI_INT, from, ready_tag, in);
  } else if (own == m->from) {
    if (m->mode == READY) MPI_Recv(NULL, 0, MPI_INT, to, ready_tag, in, MPI_STATUS_IGNORE);
    send(m, to);
  }
}

static void run_round(int number) {
  struct message all[messages];
  for (int i = 0; i < messages; i++) {
    draw(&all[i], number * 1000 + i);
    take_part(&all[i]);
    int const how = below(48);  // Open MPI loses requests if several have errors
    if (how < 8 || (all[i].is_truncated && own == all[i].to)) complete_all(how % 8);
  }
  MPI_Comm_free(&communicators[1]);  // while it has operations
  complete_all(below(8));
  MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int const first = argc > 1 ? atoi(argv[1]) : 1, seeds = argc > 2 ? atoi(argv[2]) : 3;
  MPI_Buffer_attach(malloc(8 << 20), 8 << 20);
  communicators[0] = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -own, &communicators[2]);
  MPI_Comm_split(MPI_COMM_WORLD, own % 2, own, &communicators[3]);
  for (int seed = first; seed < first + seeds; seed++) {
    state = (unsigned long)seed * 0x9e3779b97f4a7c15ul;
    for (int round = 0; round < rounds; round++) run_round(round);
    printf("seed %d, rank %d: %d wrong, checksum %lx\n", seed, own, wrong, checksum);
  }
  MPI_Buffer_detach(&buffers[0], &pending);
  MPI_Finalize();
  return wrong != 0;
}
