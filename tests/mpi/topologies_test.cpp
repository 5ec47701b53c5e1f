// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace quarry::test {
namespace topologies_test {

using numbers = std::vector<int>;

numbers dims(int ranks, numbers sizes) {
  EXPECT_EQ(MPI_Dims_create(ranks, static_cast<int>(sizes.size()), sizes.data()), MPI_SUCCESS);
  return sizes;
}

TEST(Topologies, DimensionsAreBalancedAndDescend) {
  run_everywhere(1, [] {
    EXPECT_EQ(dims(12, {0, 0}), (numbers{4, 3}));
    EXPECT_EQ(dims(12, {0, 0, 0}), (numbers{3, 2, 2}));
    EXPECT_EQ(dims(7, {0, 0}), (numbers{7, 1}));
    EXPECT_EQ(dims(24, {0, 2, 0}), (numbers{4, 2, 3}));
    EXPECT_EQ(dims(64, {0, 0, 0}), (numbers{4, 4, 4}));
    EXPECT_EQ(dims(864, {0, 0, 0}), (numbers{12, 9, 8})) << "not 12, 12, 6";
    EXPECT_EQ(dims(2147483647, {0, 0, 0}), (numbers{2147483647, 1, 1}));
    EXPECT_EQ(dims(1073741824, {0, 0, 0, 0}), (numbers{256, 256, 128, 128}));
    EXPECT_EQ(dims(1, {0, 0}), (numbers{1, 1}));
    EXPECT_EQ(dims(262144, {0, 0}), (numbers{512, 512}));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int sizes[] = {5, 0};
    EXPECT_EQ(MPI_Dims_create(12, 2, sizes), MPI_ERR_DIMS);
    EXPECT_EQ(MPI_Dims_create(0, 2, sizes), MPI_ERR_ARG);
  });
}

TEST(Topologies, GridsNumberTheirRanksWithTheLastDimensionFastest) {
  run_everywhere(14, [] {
    int const sizes[] = {3, 2, 2}, wraps[] = {1, 0, 1};
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, wraps, 1, &grid);
    int const own = rank_in(MPI_COMM_WORLD);
    if (own >= 12) {
      EXPECT_EQ(grid, MPI_COMM_NULL);
      return;
    }
    int at[3], got_sizes[3], got_wraps[3], back = -1;
    MPI_Cart_get(grid, 3, got_sizes, got_wraps, at);
    EXPECT_TRUE(std::equal(sizes, sizes + 3, got_sizes) && std::equal(wraps, wraps + 3, got_wraps));
    EXPECT_EQ((numbers{at[0], at[1], at[2]}), (numbers{own / 4, own / 2 % 2, own % 2}));
    MPI_Cart_rank(grid, at, &back);
    EXPECT_EQ(back, own);
    for (int dimension = 0; dimension < 3; ++dimension)
      for (int distance = -4; distance <= 4; ++distance) {
        int source, target;
        MPI_Cart_shift(grid, dimension, distance, &source, &target);
        auto const expected = [&](int step) {
          std::array<int, 3> to{at[0], at[1], at[2]};
          int const size = sizes[dimension];
          int& place = to[static_cast<std::size_t>(dimension)];
          place += step;
          if (wraps[dimension] != 0) place = (place % size + size) % size;
          if (place < 0 || place >= size) return MPI_PROC_NULL;
          return to[0] * 4 + to[1] * 2 + to[2];
        };
        EXPECT_EQ(source, expected(-distance));
        EXPECT_EQ(target, expected(distance));
      }
    // planes of the first and third dimension
    int const remains[] = {1, 0, 1};
    MPI_Comm plane, copy;
    MPI_Cart_sub(grid, remains, &plane);
    MPI_Comm_dup(plane, &copy);
    int dimensions = 0, kind = 0, place[2];
    MPI_Cartdim_get(copy, &dimensions);
    MPI_Topo_test(copy, &kind);
    MPI_Cart_coords(copy, rank_in(copy), 2, place);
    EXPECT_EQ((numbers{dimensions, kind, place[0], place[1]}),
              (numbers{2, MPI_CART, at[0], at[2]}));
    for (MPI_Comm* each : {&copy, &plane, &grid}) MPI_Comm_free(each);
  });
}

TEST(Topologies, GraphsHaveTheNeighboursThatAModelSays) {
  run_everywhere(6, [] {
    shared_random random{3};
    int const size = 6, own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 4; ++round) {
      numbers ends, edges, weights;
      for (int node = 0; node < size; ++node) {
        for (int k = random.below(4); k > 0; --k) {
          edges.push_back(random.below(size));
          weights.push_back(random.below(9));
        }
        ends.push_back(static_cast<int>(edges.size()));
      }
      auto const begin = [&](int node) {
        return node == 0 ? 0 : ends[static_cast<std::size_t>(node) - 1];
      };
      int const first = begin(own), count = ends[static_cast<std::size_t>(own)] - first;
      numbers const targets(edges.begin() + first, edges.begin() + first + count);

      MPI_Comm graph;
      MPI_Graph_create(MPI_COMM_WORLD, size, ends.data(), edges.data(), 0, &graph);
      int got_count = -1;
      MPI_Graph_neighbors_count(graph, own, &got_count);
      EXPECT_EQ(got_count, count);
      numbers got(targets.size());
      MPI_Graph_neighbors(graph, own, count, got.data());
      EXPECT_EQ(got, targets);
      MPI_Comm_free(&graph);

      // the same edges, each given by the rank after its source
      int const source = (own + size - 1) % size, from = begin(source);
      int const degree = ends[static_cast<std::size_t>(source)] - from;
      MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &source, &degree, edges.data() + from,
                            weights.data() + from, MPI_INFO_NULL, 0, &graph);
      numbers sources, source_weights;
      for (int node = 0; node < size; ++node)
        for (int k = begin(node); k < ends[static_cast<std::size_t>(node)]; ++k)
          if (edges[static_cast<std::size_t>(k)] == own) sources.push_back(node);
      int in = -1, out = -1, is_weighted = -1;
      MPI_Dist_graph_neighbors_count(graph, &in, &out, &is_weighted);
      EXPECT_EQ((numbers{in, out, is_weighted}),
                (numbers{static_cast<int>(sources.size()), count, 1}));
      numbers in_ranks(sources.size()), in_weights(sources.size()), out_ranks(targets.size()),
          out_weights(targets.size());
      MPI_Dist_graph_neighbors(graph, in, in_ranks.data(), in_weights.data(), out, out_ranks.data(),
                               out_weights.data());
      EXPECT_EQ(in_ranks, sources);
      numbers sorted = targets;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(out_ranks, sorted);
      int sum = 0, total = 0;
      for (int const weight : out_weights) sum += weight;
      for (int k = first; k < first + count; ++k) total += weights[static_cast<std::size_t>(k)];
      EXPECT_EQ(sum, total);
      MPI_Comm_free(&graph);
    }
  });
}

TEST(Topologies, RefuseWhatDoesNotFit) {
  run_everywhere(4, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm grid = MPI_COMM_NULL;
    int const large[] = {3, 2}, none[] = {0, 2}, wraps[] = {0, 0}, ends[] = {1, 0}, outside[] = {4};
    EXPECT_EQ(MPI_Cart_create(MPI_COMM_WORLD, 2, large, wraps, 0, &grid), MPI_ERR_DIMS);
    EXPECT_EQ(MPI_Cart_create(MPI_COMM_WORLD, 2, none, wraps, 0, &grid), MPI_ERR_DIMS);
    EXPECT_EQ(MPI_Graph_create(MPI_COMM_WORLD, 2, ends, outside, 0, &grid), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, outside, MPI_UNWEIGHTED, 0, nullptr,
                                             MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &grid),
              MPI_ERR_RANK);
    int number = 0;
    EXPECT_EQ(MPI_Cartdim_get(MPI_COMM_WORLD, &number), MPI_ERR_TOPOLOGY);
    EXPECT_EQ(MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &number), MPI_ERR_TOPOLOGY);
    EXPECT_EQ(grid, MPI_COMM_NULL);
  });
}

}  // namespace topologies_test
}  // namespace quarry::test
