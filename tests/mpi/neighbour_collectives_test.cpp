// SPDX-License-Identifier: Apache-2.0
// Collective operations of neighbours, and of communicators of two groups, against a model.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace neighbour_collectives_test {

using values = std::vector<int>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Exchanges one number with each neighbour of a grid in all three ways, and compares.
void exchange_in_grid(MPI_Comm grid, int dimensions) {
  int const own = rank_in(grid), ends = 2 * dimensions;
  values sent(at(ends)), expected(at(ends), -1), gathered(at(ends), -1), counts(at(ends), 1);
  values places(at(ends)), expected_gathered(at(ends), -1);
  std::vector<MPI_Aint> offsets(at(ends));
  std::vector<MPI_Datatype> const types(at(ends), MPI_INT);
  for (int i = 0; i < ends; ++i) {
    sent[at(i)] = own * 100 + i;
    places[at(i)] = i;
    offsets[at(i)] = static_cast<MPI_Aint>(at(i) * sizeof(int));
    int below = 0, above = 0;
    MPI_Cart_shift(grid, i / 2, 1, &below, &above);
    int const source = i % 2 == 0 ? below : above;
    if (source == MPI_PROC_NULL) continue;
    expected[at(i)] = source * 100 + (i ^ 1);  // what lies in the other direction there
    expected_gathered[at(i)] = source;
  }
  values received(at(ends), -1);
  MPI_Neighbor_alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, grid);
  EXPECT_EQ(received, expected);
  received.assign(at(ends), -1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ineighbor_alltoallv(sent.data(), counts.data(), places.data(), MPI_INT, received.data(),
                          counts.data(), places.data(), MPI_INT, grid, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, expected);
  MPI_Neighbor_alltoallw_init(sent.data(), counts.data(), offsets.data(), types.data(),
                              received.data(), counts.data(), offsets.data(), types.data(), grid,
                              MPI_INFO_NULL, &request);
  for (int round = 0; round < 2; ++round) {
    received.assign(at(ends), -1);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(received, expected);
  }
  MPI_Request_free(&request);
  MPI_Neighbor_allgather(&own, 1, MPI_INT, gathered.data(), 1, MPI_INT, grid);
  EXPECT_EQ(gathered, expected_gathered);
}

TEST(NeighbourCollectives, InAGridEachDirectionHasItsMessage) {
  run_in_worlds([] {
    int const size = size_of(MPI_COMM_WORLD);
    for (int const wraps : {0, 1}) {
      int const both[2] = {wraps, 1}, line[1] = {size};
      int sizes[2] = {0, 0};
      MPI_Dims_create(size, 2, sizes);
      MPI_Comm grid = MPI_COMM_NULL;
      MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, both, 0, &grid);
      exchange_in_grid(grid, 2);
      MPI_Comm_free(&grid);
      MPI_Cart_create(MPI_COMM_WORLD, 1, line, &wraps, 0, &grid);
      exchange_in_grid(grid, 1);
      MPI_Comm_free(&grid);
    }
  });
}

TEST(NeighbourCollectives, InAGraphSourcesAndTargetsDiffer) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    // Each rank sends to the next two and to rank 0, which has many sources.
    values targets{(own + 1) % size, (own + 2) % size, 0}, sources;
    for (int i = 0; i < size; ++i) {
      if ((i + 1) % size == own) sources.push_back(i);
      if ((i + 2) % size == own) sources.push_back(i);
      if (own == 0) sources.push_back(i);
    }
    MPI_Comm graph = MPI_COMM_NULL;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                   MPI_UNWEIGHTED, 3, targets.data(), MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   0, &graph);
    values const sent(2000, own);
    values received(sources.size() * 2000, -1), expected;
    MPI_Neighbor_allgather(sent.data(), 2000, MPI_INT, received.data(), 2000, MPI_INT, graph);
    for (int const source : sources) expected.insert(expected.end(), 2000, source);
    EXPECT_EQ(received, expected);
    MPI_Comm_free(&graph);
  });
}

TEST(NeighbourCollectives, ACommunicatorWithoutATopologyIsRefused) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int sent = 0, received = 0;
    EXPECT_EQ(MPI_Neighbor_allgather(&sent, 1, MPI_INT, &received, 1, MPI_INT, MPI_COMM_WORLD),
              MPI_ERR_TOPOLOGY);
  });
}

/// What each rank of the other group contributes, in order.
values of_group(int first, int count) {
  values result;
  for (int i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

TEST(NeighbourCollectives, TwoGroupsExchangeTheirData) {
  run_in_worlds([] {
    int const world = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    if (size < 2) return;
    for (int cut = 1; cut < size; cut += 3) {
      bool const is_lower = world < cut;
      MPI_Comm group = MPI_COMM_NULL, both = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, is_lower ? 0 : 1, 0, &group);
      MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_lower ? cut : 0, 3, &both);
      int const own = rank_in(group), local = size_of(group), remote = size - local;
      int const first = is_lower ? cut : 0;  // of the other group
      values const others = of_group(first, remote);
      int sum = 0;
      for (int const each : others) sum += each;

      MPI_Barrier(both);
      int total = -1;
      MPI_Allreduce(&world, &total, 1, MPI_INT, MPI_SUM, both);
      EXPECT_EQ(total, sum);
      values gathered(at(remote), -1);
      MPI_Allgather(&world, 1, MPI_INT, gathered.data(), 1, MPI_INT, both);
      EXPECT_EQ(gathered, others);
      values sent(at(remote)), received(at(remote), -1), exchanged;
      for (int i = 0; i < remote; ++i) sent[at(i)] = world * 100 + i;
      for (int const each : others) exchanged.push_back(each * 100 + own);
      MPI_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, both);
      EXPECT_EQ(received, exchanged);

      // The last rank of the lower group is the root.
      int const root = !is_lower ? cut - 1 : own == local - 1 ? MPI_ROOT : MPI_PROC_NULL;
      int data = root == MPI_ROOT ? 17 : -1;
      MPI_Bcast(&data, 1, MPI_INT, root, both);
      EXPECT_EQ(data, root == MPI_PROC_NULL ? -1 : 17);
      values at_root(at(remote), -1);
      MPI_Gather(&world, 1, MPI_INT, at_root.data(), 1, MPI_INT, root, both);
      EXPECT_EQ(at_root, root == MPI_ROOT ? others : values(at(remote), -1));
      int part = -1;
      MPI_Scatter(others.data(), 1, MPI_INT, &part, 1, MPI_INT, root, both);
      EXPECT_EQ(part, is_lower ? -1 : world);
      int reduced = -1;
      MPI_Reduce(&world, &reduced, 1, MPI_INT, MPI_SUM, root, both);
      EXPECT_EQ(reduced, root == MPI_ROOT ? sum : -1);

      // Each rank gets its part of the sums over the other group: a part has `remote` numbers.
      values const addends(at(local * remote), world);
      values sums(at(remote), -1);
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Ireduce_scatter_block(addends.data(), sums.data(), remote, MPI_INT, MPI_SUM, both,
                                &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(sums, values(at(remote), sum));
      MPI_Comm_free(&both);
      MPI_Comm_free(&group);
    }
  });
}

}  // namespace neighbour_collectives_test
}  // namespace quarry::test
