// SPDX-License-Identifier: Apache-2.0
// A dynamic_graph on one back end, with the operations that tests call.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/graph_kernels.hpp"
#include "support/backends.hpp"

#include <set>
#include <utility>

namespace quarry::test {

struct test_edge {
  std::uint32_t source;
  std::uint32_t target;
};

struct read_degree {
  dynamic_graph_ref<> graph;
  std::uint32_t source;
  std::uint32_t* result;
  QUARRY_HD void operator()() const { *result = graph.degree(source); }
};

template <class Backend>
class tested_graph {
 public:
  tested_graph(Backend const& backend, std::uint32_t capacity)
      : backend_{backend},
        heap_{backend.make_heap({.bytes = 2_MiB, .segment_bytes = 64_KiB})},
        table_(std::bit_ceil(capacity)),
        graph_{run_on{backend}, heap_.ref(),
               std::as_writable_bytes(std::span{table_.data(), table_.size()})} {}

  std::vector<change_result> insert(std::vector<test_edge> const& edges) {
    return change<insert_edges<test_edge>>(edges);
  }
  std::vector<change_result> erase(std::vector<test_edge> const& edges) {
    return change<delete_edges<test_edge>>(edges);
  }
  void clear() { graph_.clear(); }

  /// All edges, from an export. Fails the test if the graph breaks an invariant, or if its lookups
  /// differ from the export.
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges() {
    std::uint32_t const capacity = graph_.ref().capacity();
    typename Backend::template array<std::uint64_t> broken(1);
    backend_.run(small_grid, audit_graph<>{graph_.ref(), broken.data()});
    EXPECT_EQ(broken[0], 0u);

    typename Backend::template array<std::uint32_t> ids(capacity);
    typename Backend::template array<std::uint64_t> degrees(capacity);
    backend_.run(small_grid, measure_rows<>{graph_.ref(), ids.data(), degrees.data()});
    typename Backend::template array<std::uint64_t> ends(capacity);
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      ends[i] = sum;
      sum += degrees[i];
    }
    typename Backend::template array<std::uint32_t> columns(sum);
    backend_.run(small_grid, fill_rows<>{graph_.ref(), ends.data(), columns.data(), 4});
    std::set<std::pair<std::uint32_t, std::uint32_t>> result;
    typename Backend::template array<test_edge> listed(sum);
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      for (std::uint64_t begin = next; next < begin + degrees[i]; ++next) {
        listed[next] = {ids[i], columns[next]};
        EXPECT_TRUE(result.insert({ids[i], columns[next]}).second) << "an edge is listed twice";
      }
      EXPECT_EQ(ends[i], next);
    }
    typename Backend::template array<std::uint8_t> answers(sum);
    backend_.run(small_grid,
                 find_edges<test_edge>{graph_.ref(), listed.data(), sum, answers.data()});
    EXPECT_EQ(std::count(answers.begin(), answers.end(), 1), static_cast<std::ptrdiff_t>(sum));
    return result;
  }

  std::uint32_t degree(std::uint32_t source) {
    typename Backend::template array<std::uint32_t> result(1);
    backend_.run({}, read_degree{graph_.ref(), source, result.data()});
    return result[0];
  }

  [[nodiscard]] heap const& memory() const { return heap_; }

 private:
  struct run_on {
    Backend backend;
    template <class Kernel>
    void operator()(simt::grid, Kernel const& kernel) const {
      backend.run(small_grid, kernel);
    }
  };

  template <class Kernel>
  std::vector<change_result> change(std::vector<test_edge> const& edges) {
    typename Backend::template array<test_edge> batch(edges.size());
    std::copy(edges.begin(), edges.end(), batch.begin());
    typename Backend::template array<change_result> results(edges.size());
    backend_.run(small_grid, Kernel{graph_.ref(), batch.data(), edges.size(), results.data()});
    return {results.begin(), results.end()};
  }

  Backend backend_;
  heap heap_;
  typename Backend::template array<graph_vertex> table_;
  dynamic_graph<run_on> graph_;
};

}  // namespace quarry::test
