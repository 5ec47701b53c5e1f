// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace quarry::test {
namespace errors_test {

TEST(Errors, AFatalErrorEndsTheProgramAndNamesTheCallAndTheArgument) {
  auto const result = run_failing(3, [] {
    int value = 0;
    if (rank_in(MPI_COMM_WORLD) == 1) MPI_Send(&value, 1, MPI_INT, 17, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    ADD_FAILURE() << "rank 1 never comes";
  });
  EXPECT_EQ(result.status, MPI_ERR_RANK);
  EXPECT_EQ(result.failure,
            "rank 1: MPI_Send: there is no such rank in the communicator (rank 17)");
}

TEST(Errors, OneOfManyRanksThatFailDescribesTheFailure) {
  auto const result = run_failing(8, [] {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(nullptr, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  EXPECT_EQ(result.status, MPI_ERR_COUNT);
  EXPECT_EQ(result.failure.substr(0, 5), "rank ");
  EXPECT_EQ(result.failure.substr(6), ": MPI_Recv: invalid count (count -1)");
}

TEST(Errors, AbortEndsRanksThatWaitAndRanksThatTest) {
  auto const result = run_failing(3, [] {
    int const own = rank_in(MPI_COMM_WORLD);
    int value = 0, flag = 0;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, &request);
    if (own == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (own == 1)
      while (flag == 0) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Abort(MPI_COMM_WORLD, 42);
  });
  EXPECT_EQ(result.status, 42);
  EXPECT_EQ(result.failure, "rank 2 called MPI_Abort with code 42");
}

TEST(Errors, WaitallNamesTheErrorThatEndsTheProgram) {
  auto const result = run_failing(1, [] {
    int sent[2] = {0, 0}, got = 0;
    MPI_Request requests[2];
    MPI_Isend(sent, 2, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  });
  EXPECT_EQ(result.failure,
            "rank 0: MPI_Waitall: the message is longer than the buffer (request 1)");
}

TEST(Errors, ErrorsReturnGivesTheClassOfEachWrongArgument) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int v = 0;
    MPI_Comm const world = MPI_COMM_WORLD;
    EXPECT_EQ(MPI_Send(&v, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Send(&v, 1, MPI_DATATYPE_NULL, 0, 0, world), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Send(&v, 1, MPI_INT, 0, -1, world), MPI_ERR_TAG);
    EXPECT_EQ(MPI_Send(&v, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Recv(&v, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Recv(&v, 1, MPI_INT, 0, -7, world, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    EXPECT_EQ(MPI_Bcast(&v, 1, MPI_INT, 1, world), MPI_ERR_ROOT);
    EXPECT_EQ(MPI_Gather(&v, 1, MPI_INT, &v, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Scatter(&v, -1, MPI_INT, &v, 1, MPI_INT, 0, world), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Allgather(&v, -1, MPI_INT, &v, 1, MPI_INT, world), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Alltoall(&v, 1, MPI_DATATYPE_NULL, &v, 1, MPI_INT, world), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Comm_set_errhandler(world, 999), MPI_ERR_ARG);
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(MPI_ERR_TAG, text, &length);
    EXPECT_EQ(static_cast<int>(std::strlen(text)), length);
    EXPECT_STREQ(text, "invalid tag");
  });
}

std::atomic<int> handled = 0;
void count_error(MPI_Comm* communicator, int* error, ...) {
  EXPECT_GT(*communicator, MPI_COMM_SELF);
  EXPECT_EQ(*error, MPI_ERR_TAG);
  ++handled;
}

TEST(Errors, TheProgramsHandlerIsCalledAndInheritedAndOutlivesItsHandle) {
  handled = 0;
  int runs = 0;
  run_everywhere(2, [&runs] {
    if (rank_in(MPI_COMM_WORLD) == 0) ++runs;
    MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
    MPI_Errhandler made = MPI_ERRHANDLER_NULL, got = MPI_ERRHANDLER_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_create_errhandler(count_error, &made);
    MPI_Comm_set_errhandler(first, made);
    MPI_Comm_get_errhandler(first, &got);
    EXPECT_EQ(got, made);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&made);
    EXPECT_EQ(made, MPI_ERRHANDLER_NULL);
    MPI_Comm_split(first, 0, 0, &second);
    EXPECT_EQ(MPI_Send(nullptr, 0, MPI_INT, 0, -1, first), MPI_ERR_TAG);
    MPI_Comm_free(&first);
    EXPECT_EQ(MPI_Send(nullptr, 0, MPI_INT, 0, -1, second), MPI_ERR_TAG);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    EXPECT_EQ(got, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&got);
    MPI_Comm_free(&second);
  });
  EXPECT_EQ(handled, 4 * runs);
}

TEST(Errors, AnErrorOfARequestGoesToItsCommunicatorsHandler) {
  run_everywhere(1, [] {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    int sent[2] = {0, 0}, got = 0;
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, 0, 0, copy, &request);
    MPI_Send(sent, 2, MPI_INT, 0, 0, copy);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
  });
}

}  // namespace errors_test
}  // namespace quarry::test
