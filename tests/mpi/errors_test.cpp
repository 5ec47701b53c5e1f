// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

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

TEST(Errors, TheNullCommunicatorIsNamed) {
  auto const result = run_failing(1, [] { MPI_Barrier(MPI_COMM_NULL); });
  EXPECT_EQ(result.status, MPI_ERR_COMM);
  EXPECT_EQ(result.failure, "rank 0: MPI_Barrier: invalid communicator (MPI_COMM_NULL)");
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

TEST(Errors, ANegativeCountIsFoundAnywhereInAnArray) {
  constexpr int ranks = 37;
  run_everywhere(ranks, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::vector<int> const places(ranks, 0);
    int data = 0;
    for (std::size_t const wrong : {0, 15, 16, 31, 32, 36}) {
      std::vector<int> counts(ranks, 0), none(ranks, 0);
      counts[wrong] = -3;
      for (auto const& [sent, received] : {std::pair{counts, none}, std::pair{none, counts}})
        EXPECT_EQ(MPI_Alltoallv(&data, sent.data(), places.data(), MPI_INT, &data, received.data(),
                                places.data(), MPI_INT, MPI_COMM_WORLD),
                  MPI_ERR_COUNT);
    }
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

/// Rank 0 frees a communicator while it receives, and returns what MPI_Wait then says. The message
/// of rank 1 is longer than the buffer of rank 0 unless `fits`, and comes before or after the free.
void receive_with_freed_communicator(MPI_Errhandler handler, bool comes_later, int count, bool fits,
                                     int expected) {
  MPI_Comm copy = MPI_COMM_NULL, other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, handler);
  if (handler != MPI_ERRORS_RETURN) MPI_Errhandler_free(&handler);
  std::vector<int> data(static_cast<std::size_t>(count), 5);
  if (rank_in(MPI_COMM_WORLD) == 0) {
    MPI_Request request;
    if (!comes_later) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(data.data(), fits ? count : count / 2, MPI_INT, 1, 7, copy, &request);
    MPI_Comm_free(&copy);
    MPI_Comm_dup(MPI_COMM_SELF, &other);  // gets the handle that is free
    if (comes_later) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Status status;
    EXPECT_EQ(MPI_Wait(&request, &status), expected);
    EXPECT_EQ(status.MPI_SOURCE, 1);
    EXPECT_EQ(status.MPI_TAG, 7);
    MPI_Comm_free(&other);
  } else {
    MPI_Request request;
    if (comes_later) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(data.data(), count, MPI_INT, 0, 7, copy, &request);
    MPI_Comm_free(&copy);
    if (!comes_later) MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
}

TEST(Errors, AnErrorOfARequestGoesToTheHandlerOfItsFreedCommunicator) {
  for (int const count : {2, 300, 3000}) {
    for (bool const comes_later : {false, true}) {
      run_everywhere(2, [&] {
        receive_with_freed_communicator(MPI_ERRORS_RETURN, comes_later, count, false,
                                        MPI_ERR_TRUNCATE);
        receive_with_freed_communicator(MPI_ERRORS_RETURN, comes_later, count, true, MPI_SUCCESS);
      });
    }
  }
}

std::atomic<int> truncated = 0;
void count_truncated(MPI_Comm* communicator, int* error, ...) {
  EXPECT_EQ(*communicator, MPI_COMM_NULL);  // its handle is freed
  EXPECT_EQ(*error, MPI_ERR_TRUNCATE);
  ++truncated;
}

TEST(Errors, TheProgramsHandlerLivesAsLongAsARequestOfItsFreedCommunicator) {
  truncated = 0;
  int runs = 0;
  for (bool const comes_later : {false, true}) {
    run_everywhere(2, [&] {
      if (rank_in(MPI_COMM_WORLD) == 0) ++runs;
      for (int round = 0; round < 20; ++round) {
        MPI_Errhandler made = MPI_ERRHANDLER_NULL;
        MPI_Comm_create_errhandler(count_truncated, &made);
        EXPECT_EQ(made, 0x100) << "the handlers of earlier rounds still live";
        bool const fits = round % 2 == 1;
        receive_with_freed_communicator(made, comes_later, 2, fits,
                                        fits ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
      }
    });
  }
  EXPECT_EQ(truncated, 10 * runs);
}

void refuse_call(MPI_Comm*, int*, ...) { ADD_FAILURE() << "nobody waits for the request"; }

TEST(Errors, AFreedRequestOfAFreedCommunicatorReleasesItsHandler) {
  run_everywhere(2, [] {
    for (bool const frees_request_first : {false, true, false, true}) {
      MPI_Errhandler made = MPI_ERRHANDLER_NULL;
      MPI_Comm copy = MPI_COMM_NULL;
      MPI_Comm_create_errhandler(refuse_call, &made);
      EXPECT_EQ(made, 0x100) << "the handler of the last round still lives";
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      MPI_Comm_set_errhandler(copy, made);
      MPI_Errhandler_free(&made);
      int data[2] = {0, 0};
      MPI_Request request;
      if (rank_in(MPI_COMM_WORLD) == 0) {
        MPI_Irecv(data, 1, MPI_INT, 1, 0, copy, &request);
        if (frees_request_first) MPI_Request_free(&request);
        MPI_Comm_free(&copy);
        if (!frees_request_first) MPI_Request_free(&request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(data, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(data, 2, MPI_INT, 0, 0, copy);
        MPI_Comm_free(&copy);
        MPI_Send(data, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
      }
    }
  });
}

/// Receives messages that are too long in two communicators, and completes with `complete`.
template <class SetHandlers, class Complete>
program_result truncate_two(SetHandlers const& set_handlers, Complete const& complete) {
  return run_failing(1, [&] {
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_SELF, &first);
    MPI_Comm_dup(MPI_COMM_SELF, &second);
    set_handlers(first, second);
    int sent[2] = {0, 0}, got[2] = {0, 0};
    MPI_Request requests[2];
    MPI_Irecv(&got[0], 1, MPI_INT, 0, 0, first, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, 0, 0, second, &requests[1]);
    MPI_Send(sent, 2, MPI_INT, 0, 0, first);
    MPI_Send(sent, 2, MPI_INT, 0, 0, second);
    MPI_Status statuses[2];
    int flag = 1;  // both messages have arrived
    EXPECT_EQ(MPI_Iprobe(0, 0, first, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(complete(requests, statuses), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(requests[i], MPI_REQUEST_NULL);
      EXPECT_EQ(statuses[i].MPI_ERROR, MPI_ERR_TRUNCATE);
    }
  });
}

int all_done(MPI_Request* requests, MPI_Status* statuses) {
  return MPI_Waitall(2, requests, statuses);
}
int all_tested(MPI_Request* requests, MPI_Status* statuses) {
  int flag = 0;
  int const error = MPI_Testall(2, requests, &flag, statuses);
  EXPECT_EQ(flag, 1);
  return error;
}
template <auto Function>
int some_done(MPI_Request* requests, MPI_Status* statuses) {
  int count = 0, indices[2];
  int const error = Function(2, requests, &count, indices, statuses);
  EXPECT_EQ(count, 2);
  return error;
}

std::atomic<int> calls_of[2];
template <int Which>
void count_call(MPI_Comm*, int* error, ...) {
  EXPECT_EQ(*error, MPI_ERR_IN_STATUS);
  ++calls_of[Which];
}

TEST(Errors, TheFirstOfTheProgramsHandlersIsCalledWhereSeveralRequestsFail) {
  for (bool const first_returns : {false, true}) {
    calls_of[0] = calls_of[1] = 0;
    auto const set_handlers = [&](MPI_Comm first, MPI_Comm second) {
      MPI_Errhandler made[2];
      MPI_Comm_create_errhandler(count_call<0>, &made[0]);
      MPI_Comm_create_errhandler(count_call<1>, &made[1]);
      MPI_Comm_set_errhandler(first, first_returns ? MPI_ERRORS_RETURN : made[0]);
      MPI_Comm_set_errhandler(second, made[1]);
    };
    EXPECT_EQ(truncate_two(set_handlers, all_done).failure, "");
    EXPECT_EQ(calls_of[0], first_returns ? 0 : 1);
    EXPECT_EQ(calls_of[1], first_returns ? 1 : 0);
  }
}

TEST(Errors, AFatalHandlerWinsWhereSeveralRequestsFail) {
  std::pair<char const*, int (*)(MPI_Request*, MPI_Status*)> const calls[] = {
      {"MPI_Waitall", all_done},
      {"MPI_Testall", all_tested},
      {"MPI_Waitsome", some_done<MPI_Waitsome>},
      {"MPI_Testsome", some_done<MPI_Testsome>}};
  for (auto const& [name, complete] : calls) {
    SCOPED_TRACE(name);
    auto const with_fatal = [&](int fatal) {  // -1: none
      return truncate_two(
          [&](MPI_Comm first, MPI_Comm second) {
            MPI_Comm_set_errhandler(first, fatal == 0 ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
            MPI_Comm_set_errhandler(second, fatal == 1 ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
          },
          complete);
    };
    EXPECT_EQ(with_fatal(-1).failure, "");
    for (int const fatal : {0, 1}) {
      auto const result = with_fatal(fatal);
      EXPECT_EQ(result.status, MPI_ERR_TRUNCATE);
      EXPECT_EQ(result.failure, std::string{"rank 0: "} + name +
                                    ": the message is longer than the buffer (request " +
                                    std::to_string(fatal) + ")");
    }
  }
}

}  // namespace errors_test
}  // namespace quarry::test
