// SPDX-License-Identifier: Apache-2.0
#include "graph/reference.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quarry::graph_demo {
namespace reference_test {

using rows = std::vector<std::uint32_t>;
using counts = std::vector<std::uint64_t>;

/// Two vertices, 1 -> {2, 3} and 4 -> {1}. All edges are present.
reference small_graph() {
  reference graph{{{4, 1}, {1, 3}, {1, 2}, {1, 3}}};
  auto const locations = graph.places_of(graph.known());
  graph.check_batch(locations, {true, true, true}, true);
  return graph;
}

TEST(Reference, KnowsEachEdgeOnce) {
  auto const graph = small_graph();
  EXPECT_EQ(graph.known(), (std::vector<edge>{{1, 2}, {1, 3}, {4, 1}}));
  EXPECT_EQ(graph.sources(), 2u);
  EXPECT_EQ(graph.present(), 3u);
}

TEST(Reference, AcceptsExactlyOneInsertionOfEqualEdges) {
  std::vector<std::size_t> const duplicates{0, 0};
  EXPECT_NO_THROW((reference{{{1, 2}}}.check_batch(duplicates, {false, true}, true)));
  EXPECT_THROW((reference{{{1, 2}}}.check_batch(duplicates, {true, true}, true)), wrong_answer);
  EXPECT_THROW((reference{{{1, 2}}}.check_batch(duplicates, {false, false}, true)), wrong_answer);
  EXPECT_THROW(small_graph().check_batch(duplicates, {true, false}, true), wrong_answer);
  EXPECT_NO_THROW(small_graph().check_batch(duplicates, {true, false}, false));
}

TEST(Reference, RefusesAWrongLookupResult) {
  auto const graph = small_graph();
  EXPECT_NO_THROW(graph.check_known(std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_THROW(graph.check_known(std::vector<std::uint8_t>{1, 0, 1}), wrong_answer);
  std::vector<edge> const requested{{1, 2}, {7, 7}};
  EXPECT_NO_THROW(graph.check_any(requested, std::vector<std::uint8_t>{1, 0}));
  EXPECT_THROW(graph.check_any(requested, std::vector<std::uint8_t>{1, 1}), wrong_answer);
}

TEST(Reference, RefusesRowsThatDiffer) {
  auto const graph = small_graph();
  rows const ids{4, no_vertex, 1};
  EXPECT_NO_THROW(graph.check_rows(ids, counts{1, 0, 2}, counts{0, 1, 1}, rows{1, 3, 2}));
  EXPECT_THROW(graph.check_rows(ids, counts{1, 0, 2}, counts{0, 1, 1}, rows{1, 3, 3}),
               wrong_answer);
  EXPECT_THROW(graph.check_rows(ids, counts{1, 0, 2}, counts{0, 1, 1}, rows{1, 3, 9}),
               wrong_answer);
  EXPECT_THROW(graph.check_rows(ids, counts{1, 0, 1}, counts{0, 1, 1}, rows{1, 2}), wrong_answer);
  EXPECT_THROW(graph.check_rows(ids, counts{1, 1, 2}, counts{0, 1, 2}, rows{1, 1, 3, 2}),
               wrong_answer);
  EXPECT_THROW(graph.check_rows(rows{1, 1}, counts{1, 1}, counts{0, 1}, rows{2, 3}), wrong_answer);
  EXPECT_THROW(graph.check_rows(rows{1}, counts{2}, counts{0}, rows{2, 3}), wrong_answer);
}

TEST(Reference, AgreesWithANaiveSet) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    auto const random_below = [&](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    std::vector<edge> all(60);
    for (auto& added : all) added = {random_below(8), random_below(8)};
    reference graph{all};
    std::set<std::size_t> model;
    for (int step = 0; step < 20; ++step) {
      bool const inserts = random_below(2) == 0;
      std::vector<std::size_t> batch(10);
      std::vector<bool> done(10);
      for (std::size_t i = 0; i < 10; ++i) {
        batch[i] = random_below(static_cast<std::uint32_t>(graph.known().size()));
        done[i] = inserts ? model.insert(batch[i]).second : model.erase(batch[i]) == 1;
      }
      ASSERT_NO_THROW(graph.check_batch(batch, done, inserts));
      ASSERT_EQ(graph.present(), model.size());
    }
  }
}

}  // namespace reference_test
}  // namespace quarry::graph_demo
