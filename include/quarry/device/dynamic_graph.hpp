// SPDX-License-Identifier: Apache-2.0
// A graph that kernels change: the handle for kernels, and the owner on the host.
// graph_kernels.hpp has the kernels for batches.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/heap_ref.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/simt/launch.hpp"

#include <span>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A vertex with its neighbours. A vertex keeps its cell in the table until the graph is cleared.
struct graph_vertex {
  std::uint32_t id;  // atomic; id_set::none: the cell is free
  id_set neighbours;
};

/// A kernel's handle to a directed graph whose edges live on a heap: 32 bytes with a heap_ref,
/// passed by value.
///
/// A vertex is any 32-bit id except id_set::none. Ids need not be known in advance: the first edge
/// from an id claims a cell in a table of fixed capacity, by open addressing. The vertex keeps the
/// cell after its last edge is deleted. A target needs no cell. Each vertex has an id_set of
/// neighbours, so an edge costs O(1) expected for any degree of its source.
///
/// Any lane may call any function at any time. A lane waits only while another lane replaces the
/// array of the same vertex (id_set). An edge orders no other memory: a lane that finds an edge in
/// the same kernel may not see other writes of the lane that inserted it.
///
/// Memory order. (V) reads or claims the cell of an id. The rest of the cell was initialised
/// before the kernel began.
template <class Heap = heap_ref>
class dynamic_graph_ref {
 public:
  dynamic_graph_ref() = default;
  dynamic_graph_ref(Heap heap, graph_vertex* table, std::uint32_t capacity)
      : heap_{heap}, table_{table}, capacity_{capacity} {}

  /// Inserts an edge and returns `done`. Otherwise returns `duplicate`, `out_of_memory`,
  /// `table_full` or `reserved_id`, and the edges are unchanged. If the result is `out_of_memory`,
  /// `source` keeps a cell in the table.
  [[nodiscard]] QUARRY_HD change_result insert_edge(std::uint32_t source,
                                                    std::uint32_t target) const {
    if (source == id_set::none || target == id_set::none) return change_result::reserved_id;
    graph_vertex* const vertex = find_or_add(source);
    return vertex == nullptr ? change_result::table_full : vertex->neighbours.insert(heap_, target);
  }

  /// Deletes an edge and returns `done`. Otherwise returns `absent` or `reserved_id` and changes
  /// nothing.
  [[nodiscard]] QUARRY_HD change_result delete_edge(std::uint32_t source,
                                                    std::uint32_t target) const {
    if (source == id_set::none || target == id_set::none) return change_result::reserved_id;
    graph_vertex* const vertex = find(source);
    return vertex == nullptr ? change_result::absent : vertex->neighbours.erase(heap_, target);
  }

  [[nodiscard]] QUARRY_HD bool contains_edge(std::uint32_t source, std::uint32_t target) const {
    graph_vertex* const vertex = find(source);
    return vertex != nullptr && vertex->neighbours.contains(target);
  }

  /// Returns the number of edges from `source`. The number may be out of date on return.
  [[nodiscard]] QUARRY_HD std::uint32_t degree(std::uint32_t source) const {
    graph_vertex* const vertex = find(source);
    return vertex == nullptr ? 0 : vertex->neighbours.size();
  }

  /// The number of cells in the table. A lookup of a missing id costs O(capacity) once the table
  /// is full, and O(1) expected while a quarter of it is free.
  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }

  /// The vertex in a cell below `capacity`, for iteration over all vertices.
  [[nodiscard]] QUARRY_HD graph_vertex& at(std::uint32_t cell) const { return table_[cell]; }
  [[nodiscard]] QUARRY_HD std::uint32_t id_at(std::uint32_t cell) const {
    return simt::atomic_ref{table_[cell].id}.load(simt::relaxed);  // (V)
  }

  [[nodiscard]] QUARRY_HD Heap heap() const { return heap_; }

 private:
  [[nodiscard]] QUARRY_HD graph_vertex* find(std::uint32_t id) const {
    if (id == id_set::none) return nullptr;
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      std::uint32_t const cell = (mix(id) + step) & (capacity_ - 1);
      std::uint32_t const found = id_at(cell);
      if (found == id) return &table_[cell];
      if (found == id_set::none) break;
    }
    return nullptr;
  }

  /// Returns null if other vertices fill the table. Two lanes that add the same id meet at the
  /// first free cell: one lane claims the cell, and the other lane finds the id there.
  [[nodiscard]] QUARRY_HD graph_vertex* find_or_add(std::uint32_t id) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      graph_vertex& vertex = table_[(mix(id) + step) & (capacity_ - 1)];
      simt::atomic_ref<std::uint32_t> const owner{vertex.id};
      std::uint32_t found = owner.load(simt::relaxed);  // (V)
      if (found == id) return &vertex;
      if (found != id_set::none) continue;
      if (owner.compare_exchange(found, id, simt::relaxed) || found == id) return &vertex;  // (V)
    }
    return nullptr;
  }

  Heap heap_;
  graph_vertex* table_ = nullptr;
  std::uint32_t capacity_ = 0;  // a power of two
};

/// Makes every cell of the table free. Forgets the old vertices without freeing their memory.
struct make_graph_cells {
  graph_vertex* table;
  std::uint32_t capacity;

  QUARRY_HD void operator()() const {
    auto const lane = simt::this_place();
    for (std::uint64_t i = lane.rank(); i < capacity; i += lane.count())
      table[i] = {id_set::none, {}};
  }
};

/// Frees all edges and forgets all vertices. No other kernel may use the graph meanwhile.
template <class Heap>
struct clear_graph {
  dynamic_graph_ref<Heap> graph;

  QUARRY_HD void operator()() const {
    auto const lane = simt::this_place();
    for (std::uint64_t i = lane.rank(); i < graph.capacity(); i += lane.count()) {
      graph_vertex& vertex = graph.at(static_cast<std::uint32_t>(i));
      vertex.neighbours.clear(graph.heap());
      vertex.id = id_set::none;
    }
  }
};

/// The host's owner of a graph: a table in the caller's memory, edges on a heap.
///
/// The graph calls `launch(grid, kernel)`, which must run the kernel on the heap's backend and wait
/// for it. The heap and the memory must outlive the graph. Not thread-safe; no kernel may use the
/// graph during a call of a member function.
template <class Launch, class Heap = heap_ref>
class dynamic_graph {
 public:
  /// Returns the bytes for a table of `capacity` vertices, rounded up to a power of two. Twice the
  /// expected number of vertices is a good capacity. Throws bad_argument for more than 2^31
  /// vertices.
  [[nodiscard]] static bytes bytes_for(std::uint32_t capacity) {
    if (capacity > 1u << 31) {
      throw bad_argument{"dynamic_graph: a table of " + std::to_string(capacity) +
                         " vertices is not possible; the limit is 2147483648"};
    }
    return bytes{std::bit_ceil(capacity)} * sizeof(graph_vertex);
  }

  /// Makes an empty graph with its table in `memory`, which kernels must be able to access. Throws
  /// bad_argument if `memory` is not aligned to 8 bytes or is too small for one vertex.
  dynamic_graph(Launch launch, Heap heap, std::span<std::byte> memory)
      : launch_{std::move(launch)},
        ref_{heap, reinterpret_cast<graph_vertex*>(memory.data()), capacity_of(memory)} {
    launch_(lanes(), make_graph_cells{&ref_.at(0), ref_.capacity()});
  }
  dynamic_graph(dynamic_graph const&) = delete;
  dynamic_graph& operator=(dynamic_graph const&) = delete;
  ~dynamic_graph() {
    try {
      clear();
    } catch (std::exception const&) {
      // The device has failed, and its edges are lost with it.
    }
  }

  [[nodiscard]] dynamic_graph_ref<Heap> ref() const { return ref_; }

  /// Frees all edges and forgets all vertices.
  void clear() { launch_(lanes(), clear_graph<Heap>{ref_}); }

 private:
  [[nodiscard]] static std::uint32_t capacity_of(std::span<std::byte> memory) {
    if (reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(graph_vertex) != 0) {
      throw bad_argument{"dynamic_graph: the memory of the table is not aligned to 8 bytes"};
    }
    bytes const vertices = std::bit_floor(memory.size() / sizeof(graph_vertex));
    if (vertices == 0) {
      throw bad_argument{"dynamic_graph: the table has " + std::to_string(memory.size()) +
                         " bytes; a vertex needs " + std::to_string(sizeof(graph_vertex))};
    }
    return static_cast<std::uint32_t>(vertices < 1u << 31 ? vertices : 1u << 31);
  }
  [[nodiscard]] simt::grid lanes() const {
    std::uint32_t const blocks = (ref_.capacity() + 255) / 256;
    return {blocks < 4096 ? blocks : 4096, 256};
  }

  Launch launch_;
  dynamic_graph_ref<Heap> ref_;
};

}  // namespace quarry::inline QUARRY_ABI
