// SPDX-License-Identifier: Apache-2.0
// Messages of types of all constructors around a ring, from the heap and from the stack: sizes,
// bounds and every byte.
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { room = 40000, origin = 8000, irregular_blocks = 700 };

struct particle {
  double position[3];
  short kind;
  char name[5];
};

static int rank, size;

static unsigned sum_of(char const* data, long bytes) {
  unsigned sum = 1;
  for (long i = 0; i < bytes; ++i) sum = sum * 31 + (unsigned char)data[i];
  return sum;
}

/// Sends `count` elements to the next rank, and prints what has come from the rank before.
static void pass_on(char const* name, MPI_Datatype type, int count, char* sent, char* received) {
  for (int i = 0; i < room; ++i) sent[i] = (char)(i * 7 + i / 251 + rank);
  memset(received, 9, room);
  MPI_Status status;
  MPI_Type_commit(&type);
  MPI_Sendrecv(sent + origin, count, type, (rank + 1) % size, 1, received + origin, count, type,
               (rank + size - 1) % size, 1, MPI_COMM_WORLD, &status);
  int bytes, elements, whole, ints, addresses, types, combiner, position = 0;
  MPI_Aint lower, extent, true_lower, true_extent;
  MPI_Type_size(type, &bytes);
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
  MPI_Get_elements(&status, type, &elements);
  MPI_Get_count(&status, type, &whole);
  unsigned const in_place = sum_of(received, room);
  char* const packed = malloc((size_t)bytes * (size_t)count + 1);
  MPI_Pack(received + origin, count, type, packed, bytes * count, &position, MPI_COMM_WORLD);
  printf("%d: %s: %d bytes, bounds %ld %ld, true %ld %ld, call %d %d %d, got %d %d: %08x %08x\n",
         rank, name, bytes, (long)lower, (long)extent, (long)true_lower, (long)true_extent, ints,
         addresses, types, elements, whole, in_place, sum_of(packed, position));
  free(packed);
  MPI_Type_free(&type);
}

static MPI_Datatype irregular(int shortest, int longest) {
  int* const lengths = malloc(irregular_blocks * sizeof(int));
  int* const places = malloc(irregular_blocks * sizeof(int));
  int next = 0;
  for (int i = 0; i < irregular_blocks; ++i) {
    lengths[i] = shortest + i * 5 % (longest - shortest + 1);
    places[i] = next + i % 3;
    next = places[i] + lengths[i];
  }
  MPI_Datatype type;
  MPI_Type_indexed(irregular_blocks, lengths, places, MPI_SHORT, &type);
  free(lengths);
  free(places);
  return type;
}

static MPI_Datatype particles(void) {
  int const lengths[] = {3, 1, 5};
  MPI_Aint const places[] = {offsetof(struct particle, position), offsetof(struct particle, kind),
                             offsetof(struct particle, name)};
  MPI_Datatype const types[] = {MPI_DOUBLE, MPI_SHORT, MPI_CHAR};
  MPI_Datatype type;
  MPI_Type_create_struct(3, lengths, places, types, &type);
  return type;
}

static void all_types(char* sent, char* received) {
  MPI_Datatype type, other;
  MPI_Type_contiguous(25, MPI_DOUBLE, &type);
  pass_on("contiguous", type, 3, sent, received);
  MPI_Type_vector(40, 3, 7, MPI_INT, &type);
  pass_on("vector", type, 2, sent, received);
  MPI_Type_create_hvector(30, 2, -24, MPI_DOUBLE, &type);
  pass_on("backward", type, 1, sent, received);
  MPI_Type_vector(50, 1, 50, MPI_INT, &other);
  MPI_Type_create_resized(other, 0, sizeof(int), &type);
  MPI_Type_free(&other);
  pass_on("columns", type, 20, sent, received);
  pass_on("irregular", irregular(1, 9), 2, sent, received);
  pass_on("one length", irregular(4, 4), 2, sent, received);
  pass_on("particles", particles(), 60, sent, received);
  int const sizes[] = {9, 8, 10}, parts[] = {4, 5, 6}, starts[] = {3, 1, 2};
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  pass_on("subarray", type, 3, sent, received);
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
  pass_on("subarray of Fortran", type, 1, sent, received);
  int const shares[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  int const blocks[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG, 3};
  int const processes[] = {2, 2, 2};
  MPI_Type_create_darray(8, 5, 3, sizes, shares, blocks, processes, MPI_ORDER_C, MPI_INT, &type);
  pass_on("darray", type, 2, sent, received);
}

/// Two variables through their addresses.
static void absolute(void) {
  double first = rank + 0.5;
  int second[3] = {rank, rank * 2, rank * 3};
  MPI_Aint places[2];
  MPI_Get_address(&first, &places[0]);
  MPI_Get_address(second, &places[1]);
  int const lengths[] = {1, 3};
  MPI_Datatype const types[] = {MPI_DOUBLE, MPI_INT};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, (rank + 1) % size, 2, (rank + size - 1) % size, 2,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&type);
  printf("%d: absolute: %.1f %d %d %d\n", rank, first, second[0], second[1], second[2]);
}

static void add_particles(void* input, void* in_out, int* count, MPI_Datatype* type) {
  struct particle const* const in = input;
  struct particle* const out = in_out;
  (void)type;
  for (int i = 0; i < *count; ++i) {
    struct particle sum = out[i];
    for (int k = 0; k < 3; ++k) sum.position[k] += in[i].position[k];
    sum.kind = (short)(sum.kind + in[i].kind);
    out[i] = sum;
  }
}

static void reduced(void) {
  struct particle own[4], all[4];
  memset(own, 0, sizeof own);
  for (int i = 0; i < 4; ++i) {
    own[i].position[i % 3] = rank + i;
    own[i].kind = (short)(rank - i);
  }
  MPI_Datatype type = particles();
  MPI_Op op;
  MPI_Type_commit(&type);
  MPI_Op_create(add_particles, 1, &op);
  MPI_Allreduce(own, all, 4, type, op, MPI_COMM_WORLD);
  printf("%d: reduced: %.0f %.0f %.0f %.0f, %d %d\n", rank, all[0].position[0], all[1].position[1],
         all[2].position[2], all[3].position[0], all[0].kind, all[3].kind);
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

/// Numbers in a representation that does not depend on the machine.
static void external(void) {
  int const lengths[] = {2, 3};
  MPI_Aint const places[] = {0, 8};
  MPI_Datatype const types[] = {MPI_SHORT, MPI_DOUBLE};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  struct {
    short shorts[2];
    double doubles[3];
  } values = {{(short)(rank + 258), -2}, {1.5, -0.1, rank}}, again = {{0, 0}, {0, 0, 0}};
  char packed[64];
  MPI_Aint bytes, position = 0;
  MPI_Pack_external_size("external32", 1, type, &bytes);
  MPI_Pack_external("external32", &values, 1, type, packed, bytes, &position);
  unsigned const sum = sum_of(packed, position);
  position = 0;
  MPI_Unpack_external("external32", packed, bytes, &position, &again, 1, type);
  printf("%d: external: %ld bytes, %08x, %d %d %g %g %g\n", rank, (long)bytes, sum, again.shorts[0],
         again.shorts[1], again.doubles[0], again.doubles[1], again.doubles[2]);
  MPI_Type_free(&type);
}

// A type leaves out the first member of a struct: the operation gets the others at their alignment.
struct partial {
  int left_out;
  int whole;
  double real;
};

static void add_partial(void* input, void* in_out, int* count, MPI_Datatype* type) {
  struct partial const* const left = input;
  struct partial* const right = in_out;
  (void)type;
  for (int i = 0; i < *count; ++i) {
    right[i].whole += left[i].whole;
    right[i].real += left[i].real;
  }
}

static void partial_structs(void) {
  int const lengths[] = {1, 1};
  MPI_Aint const places[] = {offsetof(struct partial, whole), offsetof(struct partial, real)};
  MPI_Datatype const types[] = {MPI_INT, MPI_DOUBLE};
  MPI_Datatype members, type;
  MPI_Op add;
  MPI_Request request;
  MPI_Type_create_struct(2, lengths, places, types, &members);
  MPI_Type_create_resized(members, offsetof(struct partial, whole), sizeof(struct partial), &type);
  MPI_Type_free(&members);
  MPI_Type_commit(&type);
  MPI_Op_create(add_partial, 1, &add);
  struct partial const own[2] = {{-1, rank + 1, 0.5}, {-2, 2 * rank, 1.25}};
  struct partial total[2] = {{7, 0, 0}, {8, 0, 0}}, lower[2] = {{7, 0, 0}, {8, 0, 0}};
  MPI_Allreduce(own, total, 2, type, add, MPI_COMM_WORLD);
  MPI_Scan(own, lower, 2, type, add, MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i)
    printf("%d: partial: %d %d %g, %d %d %g\n", rank, total[i].left_out, total[i].whole,
           total[i].real, lower[i].left_out, lower[i].whole, lower[i].real);
  MPI_Iallreduce(own, total, 2, type, add, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Iscan(own, lower, 2, type, add, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  printf("%d: partial: %d %g, %d %g\n", rank, total[1].whole, total[1].real, lower[1].whole,
         lower[1].real);
  MPI_Op_free(&add);
  MPI_Type_free(&type);
}

static void on_the_stack(void) {
  char sent[room], received[room];
  all_types(sent, received);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* const sent = malloc(room);
  char* const received = malloc(room);
  all_types(sent, received);
  free(received);
  free(sent);
  on_the_stack();
  absolute();
  reduced();
  external();
  partial_structs();
  MPI_Finalize();
  return 0;
}
