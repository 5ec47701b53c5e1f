// SPDX-License-Identifier: Apache-2.0
// Collective operations in which a rank sends more than there is room for.
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quarry::test {
namespace long_parts_test {

constexpr int room = 40, untouched = -1;

/// `calls(communicator)` in the world and in a copy of it, which has no meetings.
void run_worlds(std::function<void(MPI_Comm)> const& calls) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const ranks : {1u, 3u, 18u, 70u}) {
    auto const result = run_on_fibers(ranks, ranks, [&] {
      MPI_Comm copy;
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      for (MPI_Comm const communicator : {MPI_COMM_WORLD, copy}) {
        MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
        calls(communicator);
      }
      MPI_Comm_free(&copy);
    });
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.status, 0);
    EXPECT_FALSE(result.is_deadlocked);
  }
}

int class_of(int error) {
  int result = MPI_SUCCESS;
  MPI_Error_class(error, &result);
  return result;
}
int end(int error, MPI_Request& request) {
  return error != MPI_SUCCESS ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// A call of each rank, whose own part is longer than its place. It returns an MPI error code.
using part_call = int (*)(int const* sent, int count, int* received, MPI_Comm communicator);

TEST(LongParts, ARanksOwnPartWritesNothingBehindItsPlace) {
  part_call const calls[] = {
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        return MPI_Gather(sent, count, MPI_INT, received, room, MPI_INT, rank_in(at), at);
      },
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        return MPI_Scatter(sent, count, MPI_INT, received, room, MPI_INT, rank_in(at), at);
      },
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        return MPI_Allgather(sent, count, MPI_INT, received, room, MPI_INT, at);
      },
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        return MPI_Alltoall(sent, count, MPI_INT, received, room, MPI_INT, at);
      },
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        MPI_Request request;
        return end(
            MPI_Igather(sent, count, MPI_INT, received, room, MPI_INT, rank_in(at), at, &request),
            request);
      },
      +[](int const* sent, int count, int* received, MPI_Comm at) {
        MPI_Request request;
        return end(MPI_Ialltoall(sent, count, MPI_INT, received, room, MPI_INT, at, &request),
                   request);
      }};
  run_worlds([&](MPI_Comm communicator) {
    MPI_Comm own;
    MPI_Comm_split(communicator, rank_in(communicator), 0, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    for (part_call const call : calls) {
      std::vector<int> const sent(room + 9, 7);
      std::vector<int> received(room + 9, untouched);
      EXPECT_EQ(class_of(call(sent.data(), room + 9, received.data(), own)), MPI_ERR_TRUNCATE);
      EXPECT_EQ(std::count(received.begin(), received.end(), 7), room);
    }
    MPI_Comm_free(&own);
  });
}

TEST(LongParts, AllRanksOfAnAllgatherInAWindowLearnThatAPartIsCut) {
  run_worlds([](MPI_Comm communicator) {
    int const own = rank_in(communicator), size = size_of(communicator);
    if (size < 64) return;
    int const last = size - 1;
    std::vector<int> const sent(room + 9, own);
    std::vector<int> received(static_cast<std::size_t>(size * room) + 9, untouched);
    int const error = MPI_Allgather(sent.data(), own == last ? room + 9 : room, MPI_INT,
                                    received.data(), room, MPI_INT, communicator);
    EXPECT_EQ(class_of(error), MPI_ERR_TRUNCATE);
    EXPECT_EQ(std::count(received.begin(), received.end(), last), room);
    EXPECT_EQ(std::count(received.begin(), received.end(), untouched), 9);
  });
}

}  // namespace long_parts_test
}  // namespace quarry::test
