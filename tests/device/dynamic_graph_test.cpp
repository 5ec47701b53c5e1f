// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/dynamic_graph.hpp"

#include "quarry/device/graph_kernels.hpp"
#include "support/graphs.hpp"

namespace quarry {
namespace dynamic_graph_test {

using namespace test;

template <class Backend>
struct DynamicGraph : testing::Test {};
TYPED_TEST_SUITE(DynamicGraph, backends, backend_names);

TYPED_TEST(DynamicGraph, ContainsAnEdgeOnceIfManyLanesInsertIt) {
  for (auto const seed : TypeParam::seeds()) {
    tested_graph graph{TypeParam{seed}, 16};
    std::vector<test_edge> const duplicates(128, {5, 6});
    auto const results = graph.insert(duplicates);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::done), 1);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::duplicate), 127);
    EXPECT_EQ(graph.edges(), (std::set<std::pair<std::uint32_t, std::uint32_t>>{{5, 6}}));
    EXPECT_EQ(graph.degree(5), 1u);
    EXPECT_EQ(graph.degree(6), 0u);
  }
}

TYPED_TEST(DynamicGraph, SupportsLoopsAndTheHighestIds) {
  tested_graph graph{TypeParam{}, 16};
  std::vector<test_edge> const unusual_edges{
      {0, 0}, {0xFFFF'FFFEu, 0xFFFF'FFFEu}, {0xFFFF'FFFEu, 0}, {0, 0xFFFF'FFFEu}};
  for (auto const result : graph.insert(unusual_edges)) EXPECT_EQ(result, change_result::done);
  EXPECT_EQ(graph.edges().size(), 4u);
  for (auto const result : graph.erase(unusual_edges)) EXPECT_EQ(result, change_result::done);
  EXPECT_TRUE(graph.edges().empty());
}

TYPED_TEST(DynamicGraph, RefusesTheReservedIdAndChangesNothing) {
  tested_graph graph{TypeParam{}, 16};
  for (auto const result : graph.insert({{id_set::none, 1}, {1, id_set::none}})) {
    EXPECT_EQ(result, change_result::reserved_id);
  }
  for (auto const result : graph.erase({{id_set::none, 1}, {1, id_set::none}})) {
    EXPECT_EQ(result, change_result::reserved_id);
  }
  EXPECT_TRUE(graph.edges().empty());
  EXPECT_EQ(graph.degree(id_set::none), 0u);
}

TYPED_TEST(DynamicGraph, ReportsAFullTableAndKeepsItsEdges) {
  for (auto const seed : TypeParam::seeds()) {
    tested_graph graph{TypeParam{seed}, 8};
    std::vector<test_edge> wanted;
    for (std::uint32_t i = 0; i < 32; ++i) wanted.push_back({i, i + 1});
    auto const results = graph.insert(wanted);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::done), 8);
    EXPECT_EQ(std::count(results.begin(), results.end(), change_result::table_full), 24);
    auto const kept = graph.edges();
    ASSERT_EQ(kept.size(), 8u);
    std::uint32_t const known = kept.begin()->first;
    EXPECT_EQ(graph.insert({{known, 77}}).front(), change_result::done)
        << "a known vertex needs no cell";
    EXPECT_EQ(graph.erase({{1000, 1}}).front(), change_result::absent);
  }
}

TYPED_TEST(DynamicGraph, FreesAllMemoryWithItsLastEdge) {
  for (auto const seed : TypeParam::seeds()) {
    tested_graph graph{TypeParam{seed}, 16};
    std::vector<test_edge> star;
    for (std::uint32_t i = 0; i < 300; ++i) star.push_back({3, i});
    for (auto const result : graph.insert(star)) ASSERT_EQ(result, change_result::done);
    EXPECT_EQ(graph.degree(3), 300u);
    for (auto const result : graph.erase(star)) ASSERT_EQ(result, change_result::done);
    EXPECT_EQ(graph.degree(3), 0u);
    expect_sound_and_empty(graph.memory());
  }
}

TYPED_TEST(DynamicGraph, IsEmptyAfterClearAndCanBeUsedAgain) {
  tested_graph graph{TypeParam{}, 8};
  for (std::uint32_t round = 0; round < 3; ++round) {
    std::vector<test_edge> wanted;
    for (std::uint32_t i = 0; i < 64; ++i) wanted.push_back({round * 8 + i % 8, i});
    for (auto const result : graph.insert(wanted)) ASSERT_EQ(result, change_result::done);
    graph.clear();
    EXPECT_TRUE(graph.edges().empty());
    expect_sound_and_empty(graph.memory());
  }
}

TYPED_TEST(DynamicGraph, AgreesWithANaiveGraphUnderMixedChanges) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    tested_graph graph{TypeParam{seed}, 32};
    std::set<std::pair<std::uint32_t, std::uint32_t>> model;
    for (int step = 0; step < 8; ++step) {
      // Vertex 1 is a hub: it gets half of the edges.
      std::vector<test_edge> batch(200);
      for (auto& [source, target] : batch) {
        source = random.below(2) == 0 ? 1 : random.below(20);
        target = random.below(60);
      }
      bool const inserts = step % 2 == 0;
      auto const results = inserts ? graph.insert(batch) : graph.erase(batch);
      std::set<std::pair<std::uint32_t, std::uint32_t>> changed;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        std::pair const edge{batch[i].source, batch[i].target};
        auto const refused = inserts ? change_result::duplicate : change_result::absent;
        ASSERT_TRUE(results[i] == change_result::done || results[i] == refused);
        if (results[i] != change_result::done) continue;
        ASSERT_TRUE(changed.insert(edge).second) << "two changes of one edge succeeded";
        ASSERT_EQ(model.count(edge), inserts ? 0u : 1u);
      }
      for (auto const& [source, target] : batch) {
        if (inserts) {
          model.insert({source, target});
        } else {
          model.erase({source, target});
        }
      }
      ASSERT_EQ(graph.edges(), model) << "at step " << step;
      for (std::uint32_t id = 0; id < 20; ++id) {
        auto const degree = std::count_if(model.begin(), model.end(),
                                          [&](auto const& edge) { return edge.first == id; });
        ASSERT_EQ(graph.degree(id), static_cast<std::uint32_t>(degree));
      }
      expect_sound(graph.memory());
    }
    graph.clear();
    expect_sound_and_empty(graph.memory());
  }
}

struct run_on_threads {
  template <class Kernel>
  void operator()(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_threads(lanes, 1, kernel);
  }
};

TEST(DynamicGraphOwner, RefusesMemoryWithoutRoomForAVertex) {
  heap memory{{.bytes = 64_KiB, .segment_bytes = 64_KiB, .backend_kind = backend::cpu}};
  alignas(8) std::byte few[sizeof(graph_vertex)];
  using graph = dynamic_graph<run_on_threads>;
  EXPECT_THROW((graph{run_on_threads{}, memory.ref(), std::span<std::byte>{few, sizeof few - 1}}),
               std::invalid_argument);
  EXPECT_THROW(
      (graph{run_on_threads{}, memory.ref(), std::span<std::byte>{few + 1, sizeof few - 1}}),
      std::invalid_argument);
  EXPECT_EQ((graph{run_on_threads{}, memory.ref(), few}.ref().capacity()), 1u);
  EXPECT_EQ(graph::bytes_for(5), 8 * sizeof(graph_vertex));
  EXPECT_EQ(graph::bytes_for(1u << 31), (bytes{1} << 31) * sizeof(graph_vertex));
  EXPECT_THROW((void)graph::bytes_for((1u << 31) + 1), bad_argument);
}

}  // namespace dynamic_graph_test
}  // namespace quarry
