// SPDX-License-Identifier: Apache-2.0
// Graphs that work-items build, read as compressed sparse rows.
#include "quarry/opencl/csr.hpp"

#include "opencl/container_fixture.hpp"
#include "quarry/core/errors.hpp"

#include <set>
#include <utility>

namespace quarry::test {
namespace opencl_csr_test {

using namespace opencl_fixture;

/// Work-items add edges. Then the graph has these edges. After a clear, nothing is allocated.
template <class Launch>
void expect_edges(uint producers, uint each, Launch const& launch) {
  fixture<quarry_map> f{8_MiB};
  make_table(f, 2048);
  uint const ids = each < 10 ? 20 : 997;
  auto const edge = [&](uint item, uint i) {
    return std::pair{(item * 3 + i) % ids * 1000, (item + i * 5) % ids * 1000};
  };
  launch([&] {
    auto const item = static_cast<uint>(simt::this_place().rank());
    quarry_graph_builder builder = quarry_graph_builder_empty();
    for (uint i = 0; i < each; ++i) {
      auto const [source, target] = edge(item, i);
      ASSERT_TRUE(quarry_graph_add_edge(f.heap, f.container, source, target, &builder));
    }
    quarry_graph_finish(f.heap, &builder);
  });
  std::multiset<std::pair<uint, uint>> wanted, found;
  for (uint item = 0; item < producers; ++item)
    for (uint i = 0; i < each; ++i) wanted.insert(edge(item, i));
  auto const graph = opencl::csr_of(f.heap, f.container);
  for (std::size_t vertex = 0; vertex < graph.ids.size(); ++vertex)
    for (auto i = graph.offsets[vertex]; i < graph.offsets[vertex + 1]; ++i)
      found.emplace(graph.ids[vertex], graph.ids[graph.targets[i]]);
  ASSERT_EQ(found, wanted);
  quarry_graph_clear(f.heap, f.container, 0, 1);
  EXPECT_TRUE(quarry_free(f.heap, f.container->table));
  ASSERT_EQ(f.audit(), "");
}
TEST(OpenclGraph, HasTheEdgesThatWorkItemsAdded) {
  for (std::uint64_t const seed : fiber_seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_edges(items, 3,
                 [&](auto const& body) { simt::launch_fibers({2, 32}, {.seed = seed}, body); });
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclGraphOnThreads, HasTheEdgesThatWorkItemsAdded) {
  for (int round = 0; round < 20; ++round) {
    expect_edges(4, 2000, [](auto const& body) { simt::launch_threads({4, 1}, 4, body); });
    if (HasFatalFailure()) return;
  }
}
TEST(OpenclGraph, ALinkWithoutAVertexIsReported) {
  fixture<quarry_map> f;
  make_table(f, 16);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  ASSERT_TRUE(quarry_graph_add_edge(f.heap, f.container, 1, 2, &builder));
  auto const node = quarry_map_find(f.heap, f.container, 1);
  quarry_ref const link = *quarry_map_value(f.heap, node);
  static_cast<quarry_graph_link*>(quarry_at(f.heap, link))->target = 77;
  EXPECT_THROW((void)opencl::csr_of(f.heap, f.container), bad_argument);
}

}  // namespace opencl_csr_test
}  // namespace quarry::test
