// SPDX-License-Identifier: Apache-2.0
// Every rank runs all of these tests.
#include "quarry/host/mpi_segment.hpp"

#include "quarry/host/pools/pool.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>

namespace quarry::test {
namespace mpi_segment_test {

using namespace quarry::literals;

/// A name that no other run has: it contains the process id of rank 0.
std::string name_of_run(char const* test) {
  long number = static_cast<long>(getpid());
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  return std::string{"quarry_"} + test + "_" + std::to_string(number);
}

TEST(MpiSegment, AllRanksOfANodeFindTheSameMemoryByItsName) {
  mpi_segment segment{MPI_COMM_WORLD, name_of_run("one"), 1_MiB};
  mpi_segment other_segment{MPI_COMM_WORLD, name_of_run("other"),
                            segment.node().rank() == 0 ? 1_MiB : 0};
  int world = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  ASSERT_EQ(segment.node().size(), world) << "the test runs on one node";
  auto const rank = static_cast<std::size_t>(segment.node().rank());
  auto const ranks = static_cast<std::size_t>(world);

  auto* const field = static_cast<int*>(segment.resource().allocate("field", ranks * sizeof(int)));
  auto* const second =
      static_cast<int*>(other_segment.resource().allocate("field", ranks * sizeof(int)));
  field[rank] = static_cast<int>(rank) + 100;
  second[rank] = static_cast<int>(rank) + 200;
  segment.node().wait_for_all();
  for (std::size_t i = 0; i < ranks; ++i) {
    EXPECT_EQ(field[i], static_cast<int>(i) + 100);
    EXPECT_EQ(second[i], static_cast<int>(i) + 200);
  }
  EXPECT_EQ(segment.resource().counts().allocations_in_use, 1u);
  EXPECT_EQ(segment.resource().counts().processes, ranks);
  EXPECT_EQ(segment.resource().counts().references, ranks);
  segment.node().wait_for_all();
}

TEST(MpiSegment, RanksShareAnAllocationByItsOffset) {
  mpi_segment source{MPI_COMM_WORLD, name_of_run("offset"), 1_MiB};
  std::uint64_t offset = 0;
  int* answer = nullptr;
  if (source.node().rank() == 0) {
    answer = static_cast<int*>(source.resource().allocate(64, 64));
    *answer = 42;
    offset = source.resource().offset_of(answer);
  }
  MPI_Bcast(&offset, 1, MPI_UINT64_T, 0, source.node().handle());
  EXPECT_EQ(*static_cast<int*>(source.resource().at(offset)), 42);
  source.node().wait_for_all();
}

TEST(MpiSegment, IfOneRankFailsAllRanksFailAndNoRankWaits) {
  std::string const name = name_of_run("refused");
  node_communicator const node{MPI_COMM_WORLD};
  // Rank 0 cannot create the segment.
  if (node.rank() == 0) {
    EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, "a/b", 1_MiB}), bad_argument);
  } else {
    EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, "a/b", 1_MiB}), resource_failed);
  }
  // The last rank requests another size.
  bool const is_last = node.rank() == node.size() - 1;
  if (node.size() > 1) {
    if (is_last) {
      EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, name, 2_MiB}), bad_argument);
    } else {
      EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, name, 1_MiB}), resource_failed);
    }
  }
  // The failed attempts left no segment.
  mpi_segment retry{MPI_COMM_WORLD, name, 3_MiB};
  EXPECT_EQ(retry.resource().counts().allocations_in_use, 0u);
  EXPECT_EQ(retry.resource().counts().processes, static_cast<std::uint32_t>(node.size()));
  retry.node().wait_for_all();
}

/// Otherwise two programs, or two communicators of one program, would unknowingly share memory.
TEST(MpiSegment, RefusesASegmentThatIsInUse) {
  std::string const name = name_of_run("twice");
  mpi_segment first{MPI_COMM_WORLD, name, 1_MiB};
  bool const is_first = first.node().rank() == 0;
  for (int times = 0; times < 2; ++times) {
    if (is_first) {
      EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, name, 1_MiB}), bad_argument);
    } else {
      EXPECT_THROW((mpi_segment{MPI_COMM_WORLD, name, 1_MiB}), resource_failed);
    }
  }
  first.node().wait_for_all();
  EXPECT_EQ(first.resource().counts().processes, static_cast<std::uint32_t>(first.node().size()));
  first.node().wait_for_all();

  std::string const second = name_of_run("other_program");
  std::optional<shared_resource> other_program;
  if (is_first) other_program.emplace(second, 1_MiB);
  try {
    mpi_segment const refused{MPI_COMM_WORLD, second, 1_MiB};
    ADD_FAILURE() << "the segment was not refused";
  } catch (bad_argument const& failure) {
    EXPECT_TRUE(is_first);
    EXPECT_NE(failure.message().find(second + " is in use"), std::string::npos)
        << failure.message();
  } catch (resource_failed const&) {
    EXPECT_FALSE(is_first);
  }
  other_program.reset();
  mpi_segment const made{MPI_COMM_WORLD, second, 1_MiB};
  made.node().wait_for_all();
}

/// By default, MPI ends the program at an error. A node communicator returns errors instead.
TEST(NodeCommunicator, ReturnsErrors) {
  node_communicator const node{MPI_COMM_WORLD};
  MPI_Errhandler handler{};
  ASSERT_EQ(MPI_Comm_get_errhandler(node.handle(), &handler), MPI_SUCCESS);
  EXPECT_EQ(handler, MPI_ERRORS_RETURN);
  int number = 0;
  EXPECT_NE(MPI_Send(&number, 1, MPI_INT, node.size() + 5, 0, node.handle()), MPI_SUCCESS);
  EXPECT_NE(MPI_Bcast(&number, 1, MPI_INT, -5, node.handle()), MPI_SUCCESS);
  node.wait_for_all();
}

TEST(NodeCommunicator, RefusesTheNullCommunicator) {
  EXPECT_THROW((node_communicator{MPI_COMM_NULL}), bad_argument);
  EXPECT_THROW((mpi_segment{MPI_COMM_NULL, name_of_run("null"), 1_MiB}), bad_argument);
}

TEST(MpiSegment, IsAResourceForAPoolOfEachRank) {
  mpi_segment source{MPI_COMM_WORLD, name_of_run("pool"), 8_MiB};
  auto* const flag =
      static_cast<std::atomic<int>*>(source.resource().allocate("flag", sizeof(std::atomic<int>)));
  {
    pool rank_pool{shared_resource{name_of_run("pool"), 0}, {.first_block = 64_KiB}};
    void* const a = rank_pool.allocate(1000);
    std::memset(a, source.node().rank(), 1000);
    ++*flag;
    source.node().wait_for_all();
    EXPECT_EQ(*flag, source.node().size());
    EXPECT_EQ(static_cast<unsigned char*>(a)[999], source.node().rank());
  }
  source.node().wait_for_all();
}

TEST(MpiSegment, CommunicatorsOfHalvesHaveSeparateSegments) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string const name = name_of_run("half") + (rank % 2 == 0 ? "_even" : "_odd");
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  {
    mpi_segment source{half, name, 1_MiB};
    auto* const sum =
        static_cast<std::atomic<int>*>(source.resource().allocate("sum", sizeof(std::atomic<int>)));
    *sum += 1;
    source.node().wait_for_all();
    EXPECT_EQ(*sum, source.node().size());
    source.node().wait_for_all();
  }
  MPI_Comm_free(&half);
}

}  // namespace mpi_segment_test
}  // namespace quarry::test

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  testing::InitGoogleTest(&count, arguments);
  int const failed = RUN_ALL_TESTS();
  MPI_Finalize();
  bool is_refused = false;
  try {
    quarry::node_communicator const late{MPI_COMM_WORLD};
  } catch (quarry::resource_failed const&) {
    is_refused = true;
  }
  return failed != 0 || !is_refused ? 1 : 0;
}
