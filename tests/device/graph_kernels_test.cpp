// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/graph_kernels.hpp"

#include "support/graphs.hpp"

namespace quarry {
namespace graph_kernels_test {

using namespace test;

template <class Backend>
struct GraphKernels : testing::Test {};
TYPED_TEST_SUITE(GraphKernels, backends, backend_names);

TYPED_TEST(GraphKernels, WorkWithoutResults) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<graph_vertex> table(4);
  dynamic_graph_ref<> const graph{heap.ref(), table.data(), 4};
  backend.run({}, make_graph_cells{table.data(), 4});
  typename TypeParam::template array<test_edge> edges(2);
  edges[0] = {1, 2};
  edges[1] = {1, 3};
  backend.run(small_grid, insert_edges<test_edge>{graph, edges.data(), 2, nullptr});
  typename TypeParam::template array<std::uint8_t> answers(2);
  backend.run(small_grid, find_edges<test_edge>{graph, edges.data(), 2, answers.data()});
  EXPECT_EQ(answers[0] + answers[1], 2);
  backend.run(small_grid, delete_edges<test_edge>{graph, edges.data(), 2, nullptr});
  expect_sound_and_empty(heap);
}

TYPED_TEST(GraphKernels, DoNothingForAnEmptyBatch) {
  tested_graph graph{TypeParam{}, 4};
  EXPECT_TRUE(graph.insert({}).empty());
  EXPECT_TRUE(graph.erase({}).empty());
  EXPECT_TRUE(graph.edges().empty());
}

TYPED_TEST(GraphKernels, ExportEveryEdgeOfARandomGraphOnce) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    tested_graph graph{TypeParam{seed}, 64};
    std::set<std::pair<std::uint32_t, std::uint32_t>> model;
    std::vector<test_edge> batch(300);
    for (auto& [source, target] : batch) {
      source = random.below(50);
      target = random.below(source == 0 ? 1000 : 20);
      model.insert({source, target});
    }
    for (auto const result : graph.insert(batch)) {
      ASSERT_TRUE(result == change_result::done || result == change_result::duplicate);
    }
    EXPECT_EQ(graph.edges(), model);
    expect_sound(graph.memory());
    graph.clear();
    expect_sound_and_empty(graph.memory());
  }
}

}  // namespace graph_kernels_test
}  // namespace quarry
