// SPDX-License-Identifier: Apache-2.0
// Faults in the use of MPI. The first argument says which.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static int values[64];

static void leak(void) {
  MPI_Comm copy;
  MPI_Datatype pair;
  MPI_Group all, one;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);              // LEAK communicator
  MPI_Datatype single;
  MPI_Type_contiguous(2, MPI_INT, &single);
  MPI_Type_create_resized(single, 0, 16, &pair);    // LEAK datatype
  MPI_Type_free(&single);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &rank, &one);              // LEAK group
  MPI_Group_free(&all);
}

static void one_buffer(void) {
  int counts[3], places[3];
  MPI_Request alltoall;
  for (int i = 0; i < 3; ++i) {
    counts[i] = 2;
    places[i] = 3 * (2 - i);
  }
  MPI_Allreduce(values, values, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);          // IN ONE BUFFER
  MPI_Alltoall(values, 2, MPI_INT, values + 5, 2, MPI_INT, MPI_COMM_WORLD);    // IN THE LAST BYTES
  MPI_Ialltoallv(values, counts, places, MPI_INT, values + 4, counts, places,  // IN SOME PARTS
                 MPI_INT, MPI_COMM_WORLD, &alltoall);
  MPI_Wait(&alltoall, MPI_STATUS_IGNORE);
  MPI_Sendrecv(values, 4, MPI_INT, rank, 0, values + 3, 4, MPI_INT, rank, 0,  // IN AN EXCHANGE
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int* const own = values + 2 * rank;
  MPI_Gather(own, 2, MPI_INT, values, 2, MPI_INT, 1, MPI_COMM_WORLD);  // IN THE ROOT
}

static void outside(void) {
  MPI_Init(NULL, NULL);  // SECOND
  MPI_Finalize();
  MPI_Barrier(MPI_COMM_WORLD);  // TOO LATE
}

static void request(void) {
  MPI_Request never;
  MPI_Irecv(values, 4, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &never);  // NEVER COMPLETED
}

static void overlap(void) {
  MPI_Request both[2];
  MPI_Irecv(values, 8, MPI_INT, rank, 1, MPI_COMM_WORLD, &both[0]);      // FIRST
  MPI_Irecv(values + 7, 8, MPI_INT, rank, 2, MPI_COMM_WORLD, &both[1]);  // OVERLAPS
  MPI_Send(values + 32, 8, MPI_INT, rank, 1, MPI_COMM_WORLD);
  MPI_Send(values + 32, 8, MPI_INT, rank, 2, MPI_COMM_WORLD);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void changed(void) {
  MPI_Request sent;
  MPI_Isend(values, 8, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &sent);  // CHANGED
  values[5] = 77;
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Recv(values + 32, 8, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void unreceived(void) {
  if (rank == 0) MPI_Send(values, 3, MPI_INT, 1, 5, MPI_COMM_WORLD);
}

static void roots(void) {
  MPI_Bcast(values, 4, MPI_INT, rank == 2 ? 1 : 0, MPI_COMM_WORLD);  // ROOT
}

static void operations(void) {
  if (rank == 1) {
    MPI_Barrier(MPI_COMM_WORLD);  // BARRIER
  } else {
    MPI_Allreduce(values, values + 32, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // ALLREDUCE
  }
}

static void reductions(void) {
  MPI_Allreduce(values, values + 32, 8, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static void types(void) {
  MPI_Bcast(values, 4, rank == 1 ? MPI_FLOAT : MPI_INT, 0, MPI_COMM_WORLD);
}

static void sizes(void) { MPI_Bcast(values, rank == 1 ? 5 : 4, MPI_INT, 0, MPI_COMM_WORLD); }

static void messages(void) {
  MPI_Request sent;
  MPI_Isend(values, 8, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &sent);  // SENT
  MPI_Recv(values + 32, 8, MPI_FLOAT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // RECEIVED
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

// A struct of an int and a double, sent to one of a double and an int.
static void structs(void) {
  int const lengths[] = {1, 1};
  MPI_Aint const places[] = {0, 8};
  MPI_Datatype const parts[] = {MPI_INT, MPI_DOUBLE, MPI_INT};
  MPI_Datatype types[2];
  MPI_Request received;
  for (int i = 0; i < 2; ++i) {
    MPI_Type_create_struct(2, lengths, places, parts + i, &types[i]);
    MPI_Type_commit(&types[i]);
  }
  MPI_Irecv(values + 32, 3, types[1], (rank + size - 1) % size, 4, MPI_COMM_WORLD, &received);  // RECEIVED STRUCT
  MPI_Ssend(values, 3, types[0], (rank + 1) % size, 4, MPI_COMM_WORLD);  // SENT STRUCT
  for (int i = 0; i < 2; ++i) MPI_Type_free(&types[i]);
  MPI_Wait(&received, MPI_STATUS_IGNORE);
}

static void nonblocking(void) {
  MPI_Request begun;
  if (rank == 1) MPI_Ibarrier(MPI_COMM_WORLD, &begun);                                          // IBARRIER
  else MPI_Iallreduce(values, values + 32, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &begun);  // IALLREDUCE
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

static void persistent(void) {
  MPI_Request made;
  MPI_Bcast_init(values, 4, MPI_INT, rank == 2 ? 1 : 0, MPI_COMM_WORLD, MPI_INFO_NULL, &made);  // INIT
}

// Persistent requests: a buffer in use, one that changes, and a request that nobody frees.
static void persistent_buffers(void) {
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Request received, sent;
  MPI_Recv_init(values, 8, MPI_INT, from, 1, MPI_COMM_WORLD, &received);
  MPI_Send_init(values + 16, 8, MPI_INT, next, 1, MPI_COMM_WORLD, &sent);  // NEVER FREED
  for (int round = 0; round < 3; ++round) {
    MPI_Start(&received);  // STARTED RECEIVE
    if (round == 1) MPI_Recv(values + 7, 0, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (round == 1) MPI_Send(values + 7, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);  // SENDS WHAT IS RECEIVED
    values[16] = round;  // the send is not active
    MPI_Start(&sent);  // STARTED SEND
    if (round == 2) values[17] = 5;
    MPI_Wait(&sent, MPI_STATUS_IGNORE);  // SENT AND CHANGED
    MPI_Wait(&received, MPI_STATUS_IGNORE);
    values[7] = round;  // the receive is complete
    if (round == 1) MPI_Recv(values + 40, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&received);
}

static void exchanges(void) {
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Request both;
  MPI_Isendrecv(values, 8, MPI_INT, next, 1, values + 8, 8, MPI_INT, from, 1, MPI_COMM_WORLD, &both);  // EXCHANGE
  MPI_Sendrecv(values + 32, 4, MPI_INT, next, 2, values + 4, 4, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // OVERWRITES
  MPI_Wait(&both, MPI_STATUS_IGNORE);
}

static void replaced(void) {
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Sendrecv_replace(values, 4, rank == 1 ? MPI_FLOAT : MPI_INT, next, 1, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // REPLACED
}

static void buffered(void) {
  char buffer[64];
  void* detached;
  int bytes;
  MPI_Buffer_attach(buffer, sizeof buffer);
  MPI_Bsend(values, 4, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);  // BUFFERED
  MPI_Recv(values, 4, MPI_FLOAT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // UNBUFFERED
  MPI_Buffer_detach(&detached, &bytes);
}

static void collective_buffers(void) {
  MPI_Request begun;
  MPI_Iallreduce(values, values + 32, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &begun);  // REDUCES
  MPI_Bcast(values + 39, 2, MPI_INT, 0, MPI_COMM_WORLD);  // TOUCHES THE RESULT
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

static void collective_changed(void) {
  MPI_Request begun;
  MPI_Iallgather(values, 1, MPI_INT, values + 32, 1, MPI_INT, MPI_COMM_WORLD, &begun);  // GATHERS
  values[0] = 99;
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

// Messages of other kinds whose types differ from those of their receives.
static void other_types(void) {
  static char buffer[10000];
  static int many[2000];
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Request made;
  void* detached;
  int bytes;
  MPI_Send_init(values, 4, MPI_INT, next, 1, MPI_COMM_WORLD, &made);
  MPI_Start(&made);  // PERSISTENT SEND
  MPI_Recv(values + 8, 4, MPI_FLOAT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // RECEIVES PERSISTENT
  MPI_Wait(&made, MPI_STATUS_IGNORE);
  MPI_Request_free(&made);
  MPI_Isendrecv(values, 4, MPI_INT, next, 2, values + 8, 4, MPI_FLOAT, from, 2, MPI_COMM_WORLD, &made);  // EXCHANGES TYPES
  MPI_Wait(&made, MPI_STATUS_IGNORE);
  MPI_Isendrecv_replace(values, 4, MPI_INT, next, 3, from, 3, MPI_COMM_WORLD, &made);  // REPLACES LATER
  MPI_Wait(&made, MPI_STATUS_IGNORE);
  MPI_Send(values, 4, MPI_FLOAT, next, 3, MPI_COMM_WORLD);  // FLOATS
  MPI_Recv_init(values, 4, MPI_INT, from, 3, MPI_COMM_WORLD, &made);
  MPI_Start(&made);  // PERSISTENT RECEIVE
  MPI_Wait(&made, MPI_STATUS_IGNORE);
  MPI_Request_free(&made);
  MPI_Buffer_attach(buffer, sizeof buffer);
  MPI_Bsend(many, 2000, MPI_INT, next, 4, MPI_COMM_WORLD);  // LONG BUFFERED
  MPI_Recv(many, 2000, MPI_FLOAT, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // LONG UNBUFFERED
  MPI_Buffer_detach(&detached, &bytes);
}

// Parts with gaps between them.
static void part_buffers(void) {
  int counts[8], places[8];
  for (int i = 0; i < size; ++i) counts[i] = 2, places[i] = 4 * (size - 1 - i);
  MPI_Request begun;
  MPI_Ialltoallv(values, counts, places, MPI_INT, values + 32, counts, places, MPI_INT, MPI_COMM_WORLD, &begun);  // MOVES PARTS
  MPI_Bcast(values + 34, 2, MPI_INT, 0, MPI_COMM_WORLD);  // a gap
  MPI_Bcast(values + 36, 1, MPI_INT, 0, MPI_COMM_WORLD);  // TOUCHES A PART
  values[4] += 99;
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

// Columns of a matrix, whose type the program frees early.
static void columns(void) {
  static int matrix[8][8];
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Datatype column;
  MPI_Request begun[3];
  MPI_Type_vector(8, 1, 8, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Irecv(&matrix[0][1], 1, column, from, 1, MPI_COMM_WORLD, &begun[0]);  // RECEIVES A COLUMN
  MPI_Irecv(&matrix[0][2], 1, column, from, 2, MPI_COMM_WORLD, &begun[1]);  // beside it
  MPI_Isend(&matrix[0][3], 1, column, next, 1, MPI_COMM_WORLD, &begun[2]);  // SENDS A COLUMN
  MPI_Type_free(&column);
  MPI_Bcast(&matrix[6][4], 4, MPI_INT, 0, MPI_COMM_WORLD);  // gaps of all columns
  MPI_Sendrecv(&matrix[2][5], 1, MPI_INT, next, 3, &matrix[5][1], 1, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // TOUCHES A COLUMN
  matrix[7][2] = matrix[7][4] = matrix[0][4] = 5;  // gaps
  matrix[7][3] = 1;
  MPI_Wait(&begun[2], MPI_STATUS_IGNORE);
  MPI_Send(values, 8, MPI_INT, next, 2, MPI_COMM_WORLD);
  MPI_Waitall(2, begun, MPI_STATUSES_IGNORE);
}

// As many parts as ranks: the last of them is used.
static void many_parts(void) {
  static int counts[128], places[128], sent[256], received[256];
  for (int i = 0; i < size; ++i) counts[i] = 1, places[i] = 2 * i;
  MPI_Request begun;
  MPI_Ialltoallv(sent, counts, places, MPI_INT, received, counts, places, MPI_INT, MPI_COMM_WORLD, &begun);  // MOVES MANY PARTS
  MPI_Bcast(received + 2 * size - 1, 1, MPI_INT, 0, MPI_COMM_WORLD);  // a gap
  MPI_Bcast(received + 2 * size - 2, 1, MPI_INT, 0, MPI_COMM_WORLD);  // TOUCHES THE LAST PART
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

static void persistent_collective(void) {
  MPI_Request made;
  MPI_Allreduce_init(values, values + 32, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &made);  // NEVER FREED EITHER
  for (int round = 0; round < 2; ++round) {
    values[0] = values[33] = round;  // it is not active
    MPI_Start(&made);  // STARTED OPERATION
    if (round == 1) MPI_Bcast(values + 33, 1, MPI_INT, 0, MPI_COMM_WORLD);  // TOUCHES ITS RESULT
    MPI_Wait(&made, MPI_STATUS_IGNORE);
  }
}

static void large(void) {
  MPI_Request begun;
  MPI_Datatype pair;
  MPI_Type_contiguous_c(2, MPI_INT, &pair);  // LARGE TYPE
  MPI_Irecv_c(values, 8, MPI_FLOAT, rank, 1, MPI_COMM_WORLD, &begun);  // LARGE RECEIVE
  MPI_Bcast_c(values + 4, 2, MPI_INT, 0, MPI_COMM_WORLD);  // LARGE BCAST
  MPI_Send_c(values + 16, 8, MPI_INT, rank, 1, MPI_COMM_WORLD);  // LARGE SEND
  MPI_Wait(&begun, MPI_STATUS_IGNORE);
}

// A communicator between the even ranks and the odd ones.
static MPI_Comm between(void) {
  MPI_Comm half, both;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &both);
  MPI_Comm_free(&half);
  return both;
}

static void groups(void) {
  MPI_Comm const both = between();
  if (rank == 2) MPI_Allreduce(values, values + 32, 1, MPI_INT, MPI_SUM, both);  // IN GROUP
  else MPI_Barrier(both);  // OTHERS IN GROUP
}

static void unfinished(void) {
  MPI_Request never;
  MPI_Ibarrier(MPI_COMM_WORLD, &never);  // UNFINISHED
}

static int refuse(MPI_Comm communicator, int key, void* value, void* state) {
  (void)communicator, (void)key, (void)state;
  return *(int*)value == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

// What is allowed and looks like a fault.
static void allowed(void) {
  int sum = rank, before = 0;  // rank 0 gets no result, so its second buffer is not used
  MPI_Exscan(&sum, rank == 0 ? &sum : &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Request requests[4];
  MPI_Status status;
  MPI_Datatype pairs;
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  int position = 0, key, refuses = 1;
  char packed[64];
  for (int i = 0; i < 2; ++i)  // no peer: the buffer is not used
    MPI_Irecv(values, 8, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[i]);
  MPI_Isend((void*)8, 8, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  MPI_Bcast(NULL, 0, rank == 0 ? MPI_INT : MPI_CHAR, 0, MPI_COMM_WORLD);
  int part_counts[8], part_places[8];
  for (int i = 0; i < size; ++i) {
    part_counts[i] = 2;
    part_places[i] = 4 * (size - 1 - i);
  }
  MPI_Alltoallv(values, part_counts, part_places, MPI_INT, values + 2, part_counts, part_places,
                MPI_INT, MPI_COMM_WORLD);  // the parts lie between each other
  MPI_Allreduce(values, values, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Group all, none;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 0, NULL, &none);  // is MPI_GROUP_EMPTY
  MPI_Group_free(&all);
  MPI_Comm copy;  // one rank cannot free it at once
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
  if (rank == 0) MPI_Comm_set_attr(copy, key, &refuses);
  MPI_Barrier(copy);
  int const error = MPI_Comm_free(&copy);
  refuses = 0;
  if (error != MPI_SUCCESS) MPI_Comm_free(&copy);
  MPI_Comm_free_keyval(&key);
  MPI_Type_contiguous(2, MPI_INT, &pairs);  // types that differ and have the same elements
  MPI_Type_commit(&pairs);
  MPI_Bcast(values, rank == 0 ? 2 : 1, rank == 0 ? MPI_INT : pairs, 0, MPI_COMM_WORLD);
  MPI_Irecv(values, 5, pairs, from, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(values + 10, 4, MPI_INT32_T, from, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(values + 20, 3, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Issend(values + 20, 2, MPI_2INT, next, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  MPI_Pack(values, 4, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
  MPI_Sendrecv(packed, position, MPI_PACKED, next, 3, values + 30, 4, MPI_INT, from, 3, MPI_COMM_WORLD, &status);
  MPI_Sendrecv(values, 0, MPI_INT, next, 4, values + 30, 4, MPI_FLOAT, from, 4, MPI_COMM_WORLD, &status);
  MPI_Issend(values, 40, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[0]);  // nobody receives it
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], &status);
  MPI_Type_free(&pairs);
  for (int i = 0; i < 70 && size > 1; ++i) {  // operations of two groups, whose arguments differ
    MPI_Comm both = between(), merged;
    int const root = rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Bcast(values, root == MPI_PROC_NULL ? 0 : 3, MPI_INT, root, both);
    MPI_Barrier(both);
    MPI_Allgather(values, 1 + rank % 2, MPI_INT, values + 20, 2 - rank % 2, MPI_INT, both);
    MPI_Intercomm_merge(both, rank % 2, &merged);
    MPI_Comm_free(&both);
    MPI_Barrier(merged);
    MPI_Comm_free(&merged);
  }
  MPI_Isend(values, 4, MPI_INT, rank, 6, MPI_COMM_WORLD, &requests[0]);  // all read one buffer
  MPI_Ibcast(rank == 0 ? values : values + 8, 4, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallreduce(values, values + 16, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
  MPI_Igather(values, 1, MPI_INT, rank == 0 ? values + 24 : values, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[3]);
  MPI_Recv(values + 32, 4, MPI_INT, rank, 6, MPI_COMM_WORLD, &status);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  MPI_Iallreduce(MPI_IN_PLACE, values, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  MPI_Isendrecv_replace(values + 8, 4, MPI_INT, next, 7, from, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  int counts[8], places[8];
  for (int i = 0; i < size; ++i) counts[i] = 1, places[i] = 2 * i;
  MPI_Iallgatherv(values + 40, 1, MPI_INT, values, counts, places, MPI_INT, MPI_COMM_WORLD, &requests[0]);
  if (rank == 0) MPI_Bcast(values + 1, 1, MPI_INT, 0, MPI_COMM_WORLD);  // a gap; with large counts, too
  else MPI_Bcast_c(values + 1, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Wait(&requests[0], &status);
  MPI_Comm line;  // its ends have a neighbour less
  int const no = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &no, 0, &line);
  MPI_Ineighbor_alltoall(values, 1, MPI_INT, values + 8, 1, MPI_INT, line, &requests[0]);
  int const absent = rank == 0 ? 8 : rank == size - 1 ? 9 : 20;
  MPI_Sendrecv(values + 40, 1, MPI_INT, next, 8, values + absent, 1, MPI_INT, from, 8, MPI_COMM_WORLD, &status);
  MPI_Wait(&requests[0], &status);
  MPI_Comm_free(&line);
  MPI_Bcast_init(values, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Recv_init(values + 8, 5, MPI_INT, from, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init_c(values + 16, 2, MPI_2INT, next, 9, MPI_COMM_WORLD, &requests[2]);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    values[0] = values[8] = values[16] = i;
  }
  for (int i = 0; i < 3; ++i) MPI_Request_free(&requests[i]);
  MPI_Info left;
  MPI_Info_create(&left);
  MPI_Finalize();
  MPI_Info_free(&left);
}

// Uses everything as it should be used, more often than the checks keep operations.
static void good(void) {
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, rank % 2, rank, &half);
  for (int i = 0; i < 200; ++i) {
    int sum = 0, half_size, from = (rank + size - 1) % size;
    MPI_Request requests[4];
    MPI_Status status;
    int index, done, indices[4];
    MPI_Irecv(values, 8, MPI_INT, from, 1, copy, &requests[0]);
    MPI_Irecv(values + 8, 8, MPI_INT, from, 2, copy, &requests[1]);
    MPI_Isend(values + 32, 8, MPI_INT, (rank + 1) % size, 1, copy, &requests[2]);
    MPI_Isend(values + 32, 8, MPI_INT, (rank + 1) % size, 2, copy, &requests[3]);
    MPI_Waitany(2, requests, &index, &status);
    MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < 4; ++k)
      if (requests[k] != MPI_REQUEST_NULL) printf("request %d is left\n", k);
    MPI_Irecv(values, 8, MPI_INT, from, 3, copy, &requests[0]);
    MPI_Recv_init(values + 8, 8, MPI_INT, from, 4, copy, &requests[1]);
    MPI_Issend(values + 32, 8, MPI_INT, (rank + 1) % size, 5, copy, &requests[2]);
    MPI_Start(&requests[1]);
    for (int k = 0; k < 3; ++k) MPI_Cancel(&requests[k]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[1]);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    MPI_Bcast(&sum, 1, MPI_INT, 0, half);
    MPI_Comm_size(half, &half_size);
    if (rank == 0) MPI_Reduce(MPI_IN_PLACE, values, 4, MPI_INT, MPI_MAX, 0, copy);
    else MPI_Reduce(values, NULL, 4, MPI_INT, MPI_MAX, 0, copy);
  }
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

int main(int argc, char** argv) {
  char const* const wanted = argc > 1 ? argv[1] : "";
  if (strcmp(wanted, "outside") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);  // TOO EARLY
  MPI_Init(&argc, &argv);
  if (strcmp(wanted, "only_init") == 0) return 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  struct {
    char const* name;
    void (*run)(void);
  } const cases[] = {{"leak", leak},
                     {"one_buffer", one_buffer},
                     {"outside", outside},
                     {"request", request},
                     {"overlap", overlap},
                     {"changed", changed},
                     {"unreceived", unreceived},
                     {"roots", roots},
                     {"operations", operations},
                     {"reductions", reductions},
                     {"types", types},
                     {"sizes", sizes},
                     {"messages", messages},
                     {"structs", structs},
                     {"nonblocking", nonblocking},
                     {"persistent", persistent},
                     {"persistent_buffers", persistent_buffers},
                     {"exchanges", exchanges},
                     {"replaced", replaced},
                     {"buffered", buffered},
                     {"collective_buffers", collective_buffers},
                     {"collective_changed", collective_changed},
                     {"other_types", other_types},
                     {"part_buffers", part_buffers},
                     {"columns", columns},
                     {"many_parts", many_parts},
                     {"persistent_collective", persistent_collective},
                     {"large", large},
                     {"groups", groups},
                     {"unfinished", unfinished},
                     {"allowed", allowed},
                     {"good", good}};
  for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (strcmp(wanted, cases[i].name) == 0) cases[i].run();
  if (strcmp(wanted, "exits") == 0) exit(0);
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (!is_finalized && strcmp(wanted, "no_end") != 0) MPI_Finalize();
  return 0;
}
