// SPDX-License-Identifier: Apache-2.0
// Kernels that change or read a dynamic_graph in batches. Any number of lanes may run a kernel; the
// lanes share its work.
#pragma once

#include "quarry/device/dynamic_graph.hpp"

namespace quarry::inline QUARRY_ABI {

/// Calls `work(i)` for this lane's share of [0, count).
template <class Work>
QUARRY_HD void share_work(std::uint64_t count, Work work) {
  auto const lane = simt::this_place();
  for (std::uint64_t i = lane.rank(); i < count; i += lane.count()) work(i);
}

/// Inserts a batch of edges in any order. `Edge` has `source` and `target`. If `results` is not
/// null, `results[i]` is the result of edge i. Among equal edges exactly one result is `done`.
template <class Edge, class Heap = heap_ref>
struct insert_edges {
  dynamic_graph_ref<Heap> graph;
  Edge const* edges;
  std::uint64_t count;
  change_result* results;

  QUARRY_HD void operator()() const {
    share_work(count, [this](std::uint64_t i) {
      change_result const result = graph.insert_edge(edges[i].source, edges[i].target);
      if (results != nullptr) results[i] = result;
    });
  }
};

/// Deletes a batch of edges. Order and results follow the rules of insert_edges.
template <class Edge, class Heap = heap_ref>
struct delete_edges {
  dynamic_graph_ref<Heap> graph;
  Edge const* edges;
  std::uint64_t count;
  change_result* results;

  QUARRY_HD void operator()() const {
    share_work(count, [this](std::uint64_t i) {
      change_result const result = graph.delete_edge(edges[i].source, edges[i].target);
      if (results != nullptr) results[i] = result;
    });
  }
};

/// Sets `answers[i]` to 1 if the graph contains edge i, and to 0 otherwise.
template <class Edge, class Heap = heap_ref>
struct find_edges {
  dynamic_graph_ref<Heap> graph;
  Edge const* edges;
  std::uint64_t count;
  std::uint8_t* answers;

  QUARRY_HD void operator()() const {
    share_work(count, [this](std::uint64_t i) {
      answers[i] = graph.contains_edge(edges[i].source, edges[i].target) ? 1 : 0;
    });
  }
};

/// First pass of an export to compressed sparse rows: writes the id (id_set::none for a free cell)
/// and the degree of each cell of the table. The exclusive sum of the degrees gives the start of
/// each row for `fill_rows`. No lane may change the graph during the two passes.
template <class Heap = heap_ref>
struct measure_rows {
  dynamic_graph_ref<Heap> graph;
  std::uint32_t* ids;  // `ids` and `degrees` have graph.capacity() elements
  std::uint64_t* degrees;

  QUARRY_HD void operator()() const {
    share_work(graph.capacity(), [this](std::uint64_t i) {
      auto const cell = static_cast<std::uint32_t>(i);
      ids[i] = graph.id_at(cell);
      degrees[i] = graph.at(cell).neighbours.size();
    });
  }
};

/// Second pass: writes the row of each cell, unsorted, and sets `ends` to the end of each row.
///
/// `lanes_per_row` neighbouring lanes share a row, so that a vertex with many edges does not keep
/// one lane busy while all other lanes wait. Use 32 for a GPU and 1 for a CPU. Memory order: (K)
/// assigns positions in a row; the positions are read only after the kernel.
template <class Heap = heap_ref>
struct fill_rows {
  dynamic_graph_ref<Heap> graph;
  std::uint64_t* ends;     // input: the start of each row
  std::uint32_t* columns;  // one element per edge
  std::uint32_t lanes_per_row;

  QUARRY_HD void operator()() const {
    share_work(std::uint64_t{graph.capacity()} * lanes_per_row, [this](std::uint64_t i) {
      auto const cell = static_cast<std::uint32_t>(i / lanes_per_row);
      if (graph.id_at(cell) == id_set::none) return;
      simt::atomic_ref<std::uint64_t> const end{ends[cell]};
      graph.at(cell).neighbours.for_each(static_cast<std::uint32_t>(i % lanes_per_row),
                                         lanes_per_row, [&](std::uint32_t id) {
                                           columns[end.fetch_add(1, simt::relaxed)] = id;  // (K)
                                         });
    });
  }
};

/// Counts the vertices whose neighbours break an invariant of id_set. Memory order: (K) counts.
template <class Heap = heap_ref>
struct audit_graph {
  dynamic_graph_ref<Heap> graph;
  std::uint64_t* broken;

  QUARRY_HD void operator()() const {
    share_work(graph.capacity(), [this](std::uint64_t i) {
      if (graph.at(static_cast<std::uint32_t>(i)).neighbours.audit()) return;
      simt::atomic_ref{*broken}.fetch_add(1, simt::relaxed);  // (K)
    });
  }
};

}  // namespace quarry::inline QUARRY_ABI
