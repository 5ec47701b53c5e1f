// SPDX-License-Identifier: Apache-2.0
// Parts of what quarry-mpicc --check adds. checks_test.py runs whole programs.
#include "mpi/support/full_heap.hpp"
#include "mpi/support/type_model.hpp"
#include "support/fibers_allowed.hpp"

#include "mpi/signatures.hpp"

#include <gtest/gtest.h>

#include <numeric>

extern "C" {
int quarry_check_MPI_Isend(void const*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
int quarry_check_MPI_Issend(void const*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
int quarry_check_MPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
int quarry_check_MPI_Recv_init(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
int quarry_check_MPI_Request_free(MPI_Request*);
int quarry_check_MPI_Recv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);
int quarry_check_MPI_Cancel(MPI_Request*);
int quarry_check_MPI_Ialltoallv(void const*, int const*, int const*, MPI_Datatype, void*,
                                int const*, int const*, MPI_Datatype, MPI_Comm, MPI_Request*);
int quarry_check_MPI_Wait(MPI_Request*, MPI_Status*);
int quarry_check_MPI_Waitall(int, MPI_Request*, MPI_Status*);
}

namespace quarry::test {
namespace checks_test {

/// A struct of basic types with these sizes, one after another.
MPI_Datatype struct_of(std::vector<type_model::entry> const& entries) {
  std::vector<int> const lengths(entries.size(), 1);
  std::vector<MPI_Aint> places;
  std::vector<MPI_Datatype> types;
  for (auto const& each : entries) {
    places.push_back(static_cast<MPI_Aint>(16 * places.size()));
    types.push_back(each.size == 1   ? MPI_CHAR
                    : each.size == 2 ? MPI_SHORT
                    : each.size == 4 ? MPI_INT
                                     : MPI_DOUBLE);
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(static_cast<int>(entries.size()), lengths.data(), places.data(),
                         types.data(), &made);
  MPI_Type_commit(&made);
  return made;
}

mpi::type_signature signature_of(int count, MPI_Datatype type, std::size_t most) {
  return mpi::signature_of(mpi::self(), static_cast<mpi::bytes>(count), type, most);
}

TEST(Checks, SignaturesAreThoseOfAListOfBasicTypes) {
  program_result const result = run_on_threads(1, [] {
    for (int seed = 1; seed <= 500; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      random_types numbers{static_cast<std::uint64_t>(seed)};
      type_model model = numbers.make(4);
      MPI_Type_commit(&model.type);
      int const count = 1 + numbers.below(3);
      std::vector<type_model::entry> list = model.elements(count);
      list.resize(static_cast<std::size_t>(numbers.below(static_cast<int>(list.size()) + 1)));
      mpi::type_signature const found = signature_of(count, model.type, list.size());
      MPI_Datatype same = struct_of(list);
      EXPECT_TRUE(found.is_known);
      EXPECT_EQ(found.elements, list.size());
      EXPECT_EQ(found.hash, signature_of(1, same, list.size()).hash);
      MPI_Type_free(&same);
      if (!list.empty()) {
        int& size =
            list[static_cast<std::size_t>(numbers.below(static_cast<int>(list.size())))].size;
        size = size == 4 ? 2 : 4;
        MPI_Datatype other = struct_of(list);
        EXPECT_NE(found.hash, signature_of(1, other, list.size()).hash);
        MPI_Type_free(&other);
      }
      random_types::release(model);
      if (testing::Test::HasFailure()) return;
    }
  });
  EXPECT_EQ(result.status, 0);
}

TEST(Checks, APairOfFortranHasTheSignatureOfTwoNumbers) {
  program_result const result = run_on_threads(1, [] {
    for (auto const& [pair, number] :
         {std::pair{MPI_2INTEGER, MPI_INT}, std::pair{MPI_2REAL, MPI_FLOAT},
          std::pair{MPI_2DOUBLE_PRECISION, MPI_DOUBLE}}) {
      mpi::type_signature const two_pairs = signature_of(2, pair, 4);
      EXPECT_EQ(two_pairs.elements, 4u);
      EXPECT_EQ(two_pairs.hash, signature_of(4, number, 4).hash);
      EXPECT_EQ(two_pairs.hash == signature_of(2, MPI_2INT, 4).hash, number == MPI_INT);
      EXPECT_NE(two_pairs.hash, signature_of(2, MPI_FLOAT_INT, 4).hash);
      EXPECT_NE(two_pairs.hash, signature_of(2, MPI_DOUBLE_INT, 4).hash);
    }
  });
  EXPECT_EQ(result.status, 0);
}

/// Messages of all sizes in a ring, received before and after they are sent, and cancelled ones.
void exchange(int rounds) {
  int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  int const next = (own + 1) % size, previous = (own + size - 1) % size;
  for (int round = 0; round < rounds; ++round)
    for (int const count : {0, 1, 13, 700, 1022, 1024, 5000}) {
      auto const length = static_cast<std::size_t>(count);
      std::vector<int> sent(length),
          received[2] = {std::vector<int>(length), std::vector<int>(length)};
      std::iota(sent.begin(), sent.end(), own * 10000);
      MPI_Request requests[4];
      quarry_check_MPI_Irecv(received[0].data(), count, MPI_INT, previous, 1, MPI_COMM_WORLD,
                             &requests[0]);
      quarry_check_MPI_Isend(sent.data(), count, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]);
      quarry_check_MPI_Issend(sent.data(), count, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[2]);
      quarry_check_MPI_Issend(sent.data(), count, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[3]);
      quarry_check_MPI_Cancel(&requests[3]);  // nobody receives it
      quarry_check_MPI_Recv(received[1].data(), count, MPI_INT, previous, 2, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE);
      MPI_Status statuses[4];
      quarry_check_MPI_Waitall(4, requests, statuses);
      int is_cancelled = 0;
      MPI_Test_cancelled(&statuses[3], &is_cancelled);
      EXPECT_EQ(is_cancelled, 1);
      std::iota(sent.begin(), sent.end(), previous * 10000);
      EXPECT_EQ(received[0], sent);
      EXPECT_EQ(received[1], sent);
    }
  MPI_Barrier(MPI_COMM_WORLD);  // a rank answers the last cancellation
}

TEST(Checks, SignedMessagesArrive) {
  for (std::uint32_t const ranks : {1u, 4u}) run_everywhere(ranks, [] { exchange(2); });
}

TEST(Checks, SignedMessagesGiveTheirMemoryBack) {
  QUARRY_TEST_USES_FIBERS();
  auto const leftover = [](int rounds) {
    auto const result = run_on_fibers(4, 1, [=] { exchange(rounds); });
    EXPECT_EQ(result.wrong_frees, 0u);
    EXPECT_EQ(result.failure, "");
    EXPECT_FALSE(result.is_deadlocked);
    return result.allocations;
  };
  // Ranks keep some messages for reuse; how many depends on the order of the ranks. A message that
  // is lost in each round of each rank would be 80 more.
  EXPECT_LT(leftover(40), leftover(20) + 20);
}

TEST(Checks, BuffersWithGapsGiveTheirMemoryAndTypesBack) {
  QUARRY_TEST_USES_FIBERS();
  auto const leftover = [](int rounds) {
    auto const result = run_on_fibers(3, 1, [=] {
      int const own = rank_in(MPI_COMM_WORLD), next = (own + 1) % 3, previous = (own + 2) % 3;
      int const counts[] = {1, 1, 1}, places[] = {4, 2, 0};
      for (int round = 0; round < rounds; ++round) {
        int sent[12] = {}, received[12] = {};
        MPI_Datatype column;
        MPI_Type_vector(3, 1, 2, MPI_INT, &column);
        MPI_Type_commit(&column);
        MPI_Request requests[3];
        quarry_check_MPI_Irecv(received + 6, 1, column, previous, 1, MPI_COMM_WORLD, &requests[0]);
        quarry_check_MPI_Isend(sent, 1, column, next, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Type_free(&column);
        quarry_check_MPI_Ialltoallv(sent, counts, places, MPI_INT, received, counts, places,
                                    MPI_INT, MPI_COMM_WORLD, &requests[2]);
        quarry_check_MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    });
    EXPECT_EQ(result.wrong_frees, 0u);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.status, 0);
    return result.allocations;
  };
  // As above, what ranks keep for reuse depends on the order. Each round has 27 buffers and types.
  EXPECT_LT(leftover(40), leftover(20) + 20);
}

/// A persistent request is open while the numbers of 2^28 other requests pass.
TEST(Checks, NumbersOfRequestsWrapAndLeaveOutThoseInUse) {
  auto const result = run_on_threads(1, [] {
    int kept = 0, sent = 7, received = 0;
    MPI_Request persistent, requests[2];
    quarry_check_MPI_Recv_init(&kept, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &persistent);
    mpi::checks_of(mpi::self())->next_number = mpi::checked_requests;
    quarry_check_MPI_Irecv(&received, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[0]);
    EXPECT_NE(requests[0], persistent);
    quarry_check_MPI_Isend(&sent, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[1]);
    quarry_check_MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    EXPECT_EQ(received, 7);
    quarry_check_MPI_Request_free(&persistent);
    EXPECT_EQ(persistent, MPI_REQUEST_NULL);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(Checks, ARankWithoutMemoryForItsCountComparesNothing) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(
      2, 1,
      [] {
        int const own = rank_in(MPI_COMM_WORLD);
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        mpi::check_collective(MPI_COMM_WORLD, {.name = "first"});
        if (own == 1) mpi::check_collective(copy, {.name = "second"});
        MPI_Barrier(MPI_COMM_WORLD);
        if (own == 0) {
          full_heap const full;
          mpi::check_collective(copy, {.name = "second"});
        }
        mpi::check_collective(copy, {.name = "third"});
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_free(&copy);
      },
      std::uint64_t{1} << 20);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
}

}  // namespace checks_test
}  // namespace quarry::test
