// SPDX-License-Identifier: Apache-2.0
// A graph that kernels change: what kernels hold of it, and its owner on the host. Batches are in
// graph_kernels.hpp.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/heap_ref.hpp"
#include "quarry/device/id_set.hpp"
#include "quarry/simt/launch.hpp"

#include <span>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A vertex with its neighbours. Its place in the table is its own until the graph is cleared.
struct graph_vertex {
  std::uint32_t id;  // atomic; id_set::none: the place is free
  id_set neighbours;
};

/// What kernels hold of a directed graph whose edges live on a heap: 32 bytes with a heap_ref,
/// passed by value.
///
/// Vertices are any 32-bit ids but id_set::none, unknown beforehand: the first edge from an id
/// claims a place for it in a table of fixed capacity, by open addressing; it stays when its last
/// edge goes. A target needs no place. Neighbours are an id_set each, so that an edge costs O(1)
/// expected however many its source has.
///
/// Any lane may call anything at any time. It waits only while another lane replaces the array of
/// the same vertex (id_set). An edge orders no other memory: who finds it in the same kernel sees
/// nothing else of who inserted it.
///
/// Memory order. (V) reads or claims the place of an id; the rest of the place was made before the
/// kernel began.
template <class Heap = heap_ref>
class dynamic_graph_ref {
 public:
  dynamic_graph_ref() = default;
  dynamic_graph_ref(Heap heap, graph_vertex* table, std::uint32_t capacity)
      : heap_{heap}, table_{table}, capacity_{capacity} {}

  /// `done`, or `duplicate`, `out_of_memory`, `table_full`, `reserved_id`, with nothing changed.
  [[nodiscard]] QUARRY_HD change_result insert_edge(std::uint32_t source,
                                                    std::uint32_t target) const {
    if (source == id_set::none || target == id_set::none) return change_result::reserved_id;
    graph_vertex* const vertex = find_or_add(source);
    return vertex == nullptr ? change_result::table_full : vertex->neighbours.insert(heap_, target);
  }

  /// `done`, or `absent`, `reserved_id`, with nothing changed.
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

  /// How many edges left `source` a moment ago.
  [[nodiscard]] QUARRY_HD std::uint32_t degree(std::uint32_t source) const {
    graph_vertex* const vertex = find(source);
    return vertex == nullptr ? 0 : vertex->neighbours.size();
  }

  /// Places of the table. Each lookup of an id that is not there costs this much once the table is
  /// full, and O(1) expected while a quarter of it is free.
  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }

  /// What is in a place below `capacity`, to go through all vertices.
  [[nodiscard]] QUARRY_HD graph_vertex& at(std::uint32_t place) const { return table_[place]; }
  [[nodiscard]] QUARRY_HD std::uint32_t id_at(std::uint32_t place) const {
    return simt::atomic_ref<std::uint32_t>{table_[place].id}.load(simt::relaxed);  // (V)
  }

  [[nodiscard]] QUARRY_HD Heap heap() const { return heap_; }

 private:
  [[nodiscard]] QUARRY_HD graph_vertex* find(std::uint32_t id) const {
    if (id == id_set::none) return nullptr;
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      std::uint32_t const place = (mix(id) + step) & (capacity_ - 1);
      std::uint32_t const found = id_at(place);
      if (found == id) return &table_[place];
      if (found == id_set::none) break;
    }
    return nullptr;
  }

  /// Null if the table is full of others. Two lanes with one id meet at the first free place, and
  /// one finds the other's.
  [[nodiscard]] QUARRY_HD graph_vertex* find_or_add(std::uint32_t id) const {
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      graph_vertex& here = table_[(mix(id) + step) & (capacity_ - 1)];
      simt::atomic_ref<std::uint32_t> const owner{here.id};
      std::uint32_t found = owner.load(simt::relaxed);  // (V)
      if (found == id) return &here;
      if (found != id_set::none) continue;
      if (owner.compare_exchange(found, id, simt::relaxed) || found == id) return &here;  // (V)
    }
    return nullptr;
  }

  Heap heap_;
  graph_vertex* table_ = nullptr;
  std::uint32_t capacity_ = 0;  // a power of two
};

/// Makes every place of the table free. What was in them is forgotten, not freed.
struct make_graph_places {
  graph_vertex* table;
  std::uint32_t capacity;

  QUARRY_HD void operator()() const {
    auto const here = simt::this_place();
    for (std::uint64_t i = here.rank(); i < capacity; i += here.count())
      table[i] = {id_set::none, {}};
  }
};

/// Frees all edges and forgets all vertices. Requires that no other kernel uses the graph.
template <class Heap>
struct clear_graph {
  dynamic_graph_ref<Heap> graph;

  QUARRY_HD void operator()() const {
    auto const here = simt::this_place();
    for (std::uint64_t i = here.rank(); i < graph.capacity(); i += here.count()) {
      graph_vertex& vertex = graph.at(static_cast<std::uint32_t>(i));
      vertex.neighbours.clear(graph.heap());
      vertex.id = id_set::none;
    }
  }
};

/// A graph as the host owns it: a table in the caller's memory, edges on a heap.
///
/// `Launch` is called as `launch(grid, kernel)`; it runs the kernel on the machine that the heap
/// belongs to, and waits. Not thread-safe; no kernel may use the graph while a function of it runs.
/// Heap and memory must outlive it.
template <class Launch, class Heap = heap_ref>
class dynamic_graph {
 public:
  /// Memory for a table of `capacity` vertices, rounded up to a power of two. Twice as many as
  /// there will be is a good choice.
  [[nodiscard]] static bytes bytes_for(std::uint32_t capacity) {
    return bytes{std::bit_ceil(capacity)} * sizeof(graph_vertex);
  }

  /// An empty graph. `memory`, which kernels must see, is its table; throws bad_argument
  /// if it is not aligned to 8 bytes or holds no vertex.
  dynamic_graph(Launch launch, Heap heap, std::span<std::byte> memory)
      : launch_{std::move(launch)},
        ref_{heap, reinterpret_cast<graph_vertex*>(memory.data()), capacity_of(memory)} {
    launch_(lanes(), make_graph_places{&ref_.at(0), ref_.capacity()});
  }
  dynamic_graph(dynamic_graph const&) = delete;
  dynamic_graph& operator=(dynamic_graph const&) = delete;
  ~dynamic_graph() {
    try {
      clear();
    } catch (std::exception const&) {
      // The machine is gone, and the edges with it.
    }
  }

  [[nodiscard]] dynamic_graph_ref<Heap> ref() const { return ref_; }

  /// Frees all edges and forgets all vertices.
  void clear() { launch_(lanes(), clear_graph<Heap>{ref_}); }

 private:
  [[nodiscard]] static std::uint32_t capacity_of(std::span<std::byte> memory) {
    if (reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(graph_vertex) != 0) {
      throw bad_argument{"dynamic_graph: memory is not aligned to 8 bytes"};
    }
    bytes const vertices = std::bit_floor(memory.size() / sizeof(graph_vertex));
    if (vertices == 0) throw bad_argument{"dynamic_graph: memory holds no vertex"};
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
