/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail and return. The ranks exchange the messages of tag 1 alone. */
#include <mpi.h>
#include <stdio.h>

static int failures;

static void expect_failure(int error) { failures += error != MPI_SUCCESS; }

int main(int argc, char** argv) {
  int rank, size, flag = 1, out[2] = {0}, in[2];
  MPI_Request request, kept;
  MPI_Message message;
  MPI_Status status;
  MPI_Init(&argc, &argv);
  MPI_Comm const all = MPI_COMM_WORLD;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  int const next = (rank + 1) % size, from = (rank + size - 1) % size;
  expect_failure(MPI_Send(out, 1, MPI_INT, next, -3, all));
  expect_failure(MPI_Send(out, -1, MPI_INT, next, 1, all));
  expect_failure(MPI_Bsend(out, 1, MPI_INT, next, 1, all)); /* there is no buffer */
  MPI_Isend(out, 1, MPI_INT, next, 1, all, &request);
  kept = request; /* what a call that fails leaves in its request means nothing */
  expect_failure(MPI_Isend(out, 1, MPI_INT, next, -3, all, &kept));
  expect_failure(MPI_Irecv(in, -1, MPI_INT, from, 1, all, &kept));
  expect_failure(MPI_Send_init(out, 1, MPI_INT, next, -3, all, &kept));
  expect_failure(MPI_Recv(in, -1, MPI_INT, from, 1, all, &status));
  expect_failure(MPI_Sendrecv(out, 1, MPI_INT, next, 1, in, -1, MPI_INT, from, 1, all, &status));
  expect_failure(MPI_Isendrecv(out, 1, MPI_INT, next, 1, in, -1, MPI_INT, from, 1, all, &kept));
  expect_failure(MPI_Improbe(from, -3, all, &flag, &message, &status));
  expect_failure(MPI_Iprobe(from, -3, all, &flag, &status));
  expect_failure(MPI_Bcast(in, -1, MPI_INT, 0, all));
  expect_failure(MPI_Ibcast(in, -1, MPI_INT, 0, all, &kept));
  expect_failure(MPI_Bcast_init(in, -1, MPI_INT, 0, all, MPI_INFO_NULL, &kept));
  MPI_Recv(in, 1, MPI_INT, from, 1, all, &status);
  MPI_Wait(&request, &status);
  MPI_Send(out, 2, MPI_INT, next, 1, all);
  expect_failure(MPI_Recv(in, 1, MPI_INT, from, 1, all, &status)); /* is cut, and has arrived */
  MPI_Request persistent[2];
  MPI_Send_init(out, 1, MPI_INT, next, 1, all, &persistent[0]);
  MPI_Bsend_init(out, 1, MPI_INT, next, 1, all, &persistent[1]);
  expect_failure(MPI_Startall(2, persistent)); /* has begun the first, and has no buffer */
  expect_failure(MPI_Start(&persistent[0]));   /* is active */
  MPI_Recv(in, 1, MPI_INT, from, 1, all, &status);
  MPI_Request with_unknown[2] = {persistent[0], 12345};
  expect_failure(MPI_Waitall(2, with_unknown, MPI_STATUSES_IGNORE)); /* completes nothing */
  MPI_Wait(&persistent[0], &status);
  expect_failure(MPI_Startall(-1, persistent));
  MPI_Request_free(&persistent[0]);
  MPI_Request_free(&persistent[1]);
  if (rank == 0) printf("%d\n", failures);
  MPI_Finalize();
  return 0;
}
