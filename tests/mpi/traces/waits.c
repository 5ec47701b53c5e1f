// SPDX-License-Identifier: Apache-2.0
// Sends that last until their receivers have the messages, and others; operations between two groups;
// a rank that sleeps, and ranks that ask often or allocate large local variables.
// usage: waits messages | groups | memory | turns
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { long_count = 50000, small_tag = 1, polls = 2000 };

static int rank, size;

/// Rank 0 sends to rank 1. The tag says whether the message is expected to wait.
static void send_all(void) {
  int* const far = calloc(long_count, sizeof(int));
  char* const buffer = malloc(2 * 4096 * sizeof(int) + MPI_BSEND_OVERHEAD);
  MPI_Datatype gaps;
  MPI_Request request, persistent;
  MPI_Type_vector(2000, 2, 4, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Buffer_attach(buffer, 2 * 4096 * sizeof(int) + MPI_BSEND_OVERHEAD);
  if (rank == 0) {
    MPI_Send(far, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Send(far, long_count, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Send(far, 1, gaps, 1, 0, MPI_COMM_WORLD);  // is copied
    MPI_Bsend(far, 4096, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Ssend(far, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    MPI_Isend(far, long_count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Issend_c(far, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ssend_init(far, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &persistent);
    MPI_Start(&persistent);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Request_free(&persistent);
    MPI_Send_init(far, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &persistent);
    MPI_Start(&persistent);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Request_free(&persistent);
  } else {
    static int const tags[] = {0, 1, 0, 0, 1, 1, 1, 1, 0};
    for (unsigned i = 0; rank == 1 && i < sizeof tags / sizeof *tags; ++i)
      MPI_Recv(far, long_count, MPI_INT, 0, tags[i], MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  int const left = (rank + size - 1) % size, right = (rank + 1) % size;
  int* const room = malloc(long_count * sizeof(int));
  MPI_Sendrecv(far, long_count, MPI_INT, right, 1, room, long_count, MPI_INT, left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(far, 1, MPI_INT, right, 0, room, 1, MPI_INT, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  void* detached;
  int detached_size;
  MPI_Buffer_detach(&detached, &detached_size);
  MPI_Type_free(&gaps);
  free(room);
  free(buffer);
  free(far);
}

/// The first rank of the even ones is the root.
static void use_groups(void) {
  MPI_Comm half, both;
  int value = 7;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &both);
  int const root = rank % 2 != 0 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(&value, 1, MPI_INT, root, both);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

static void use_memory(void) {
  void* volatile refused = malloc((size_t)-1 / 4);
  free(refused);
  char* grown = malloc(100);
  grown = realloc(grown, 5000);
  free(grown);
  void* aligned = grown;
  if (posix_memalign(&aligned, 64, (size_t)-1 / 4) == 0) abort();
}

/// On the CPU other ranks run while a rank asks in vain, or waits for memory of its local variables.
static void take_turns(void) {
  int flag = 0, value = rank;
  for (int i = 0; i < polls; ++i) {
    char volatile room[1000 + i % 7];
    memset((char*)room, rank, sizeof room);
    MPI_Iprobe(MPI_ANY_SOURCE, small_tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
  if (rank == 0) usleep(3000);
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char const* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "messages") == 0) send_all();
  if (strcmp(what, "groups") == 0) use_groups();
  if (strcmp(what, "memory") == 0) use_memory();
  if (strcmp(what, "turns") == 0) take_turns();
  MPI_Finalize();
  return 0;
}
