// SPDX-License-Identifier: Apache-2.0
// More faults in the use of MPI. The first argument says which.
#include <mpi.h>
#include <string.h>

static int rank, size;

typedef int (*sender)(void const*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*receiver)();  // C17 allows a pointer that does not name its parameters
#pragma clang diagnostic ignored "-Wdeprecated-non-prototype"
static int (*volatile rank_of)(MPI_Comm, int*) = MPI_Comm_rank;
static sender volatile sends = MPI_Ssend;
static receiver volatile receives = (receiver)MPI_Irecv;

static void pointers(void) {
  static int buffer[3];
  MPI_Request made;
  receives(buffer, 2, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &made);  // POINTED RECEIVE
  sends(buffer + 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  sends(buffer + 1, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);  // POINTED SEND
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  char const* const wanted = argc > 1 ? argv[1] : "";
  int const has_pointers = strcmp(wanted, "pointers") == 0;
  if (has_pointers) rank_of(MPI_COMM_WORLD, &rank);  // POINTED TOO EARLY
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  struct {
    char const* name;
    void (*run)(void);
  } const cases[] = {{"pointers", pointers}};
  for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (strcmp(wanted, cases[i].name) == 0) cases[i].run();
  MPI_Finalize();
  if (has_pointers) rank_of(MPI_COMM_WORLD, &rank);  // POINTED TOO LATE
  return 0;
}
