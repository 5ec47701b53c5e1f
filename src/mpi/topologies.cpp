// SPDX-License-Identifier: Apache-2.0
#include "topologies.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW topology* copy_of(topology const& old) {
  void* const memory = allocate(sizeof(topology) + old.words * sizeof(int));
  if (memory == nullptr) return nullptr;
  copy_bytes(memory, &old, sizeof(topology) + old.words * sizeof(int));
  return static_cast<topology*>(memory);
}

QUARRY_SLOW neighbourhood* copy_of(neighbourhood const& old) {
  bytes const size =
      sizeof(neighbourhood) + 2 * static_cast<bytes>(old.sources + old.targets) * sizeof(int);
  void* const memory = allocate(size);
  if (memory != nullptr) copy_bytes(memory, &old, size);
  return static_cast<neighbourhood*>(memory);
}

namespace {

/// The rank next to `own` along a dimension; MPI_PROC_NULL beyond an edge.
[[nodiscard]] QUARRY_SLOW int shifted(topology& grid, std::uint32_t own, std::int32_t dimension,
                                      std::int64_t distance) {
  std::int64_t below = 1;  // ranks from one coordinate of the dimension to the next
  for (std::int32_t i = dimension + 1; i < grid.count; ++i) below *= grid.first()[i];
  std::int64_t const size = grid.first()[dimension];
  std::int64_t const place = own / below % size;
  std::int64_t moved = place + distance;
  if (grid.second()[dimension] != 0) {
    moved = (moved % size + size) % size;
  } else if (moved < 0 || moved >= size) {
    return MPI_PROC_NULL;
  }
  return static_cast<int>(own + (moved - place) * below);
}

/// Where a node's neighbours begin in the graph's list.
[[nodiscard]] QUARRY_HD int begin_of(topology& graph, std::uint32_t node) {
  return node == 0 ? 0 : graph.first()[node - 1];
}

}  // namespace

QUARRY_SLOW int neighbours::source(int index) const {
  if (near != nullptr) return near->source()[index];
  if (shape->is_grid != 0) return shifted(*shape, own, index / 2, index % 2 == 0 ? -1 : 1);
  return shape->second()[begin_of(*shape, own) + index];
}
QUARRY_SLOW int neighbours::target(int index) const {
  return near != nullptr ? near->target()[index] : source(index);
}

QUARRY_SLOW neighbours neighbours_of(rank_state& rank, membership const& at) {
  membership_extra const* const extra = extra_of(rank, at);
  if (extra != nullptr && extra->neighbours != nullptr)
    return {extra->neighbours->sources,
            extra->neighbours->targets,
            true,
            nullptr,
            extra->neighbours,
            at.rank};
  topology* const shape = at.shared->shape;
  if (shape == nullptr) return {0, 0, false, nullptr, nullptr, at.rank};
  int const count =
      shape->is_grid != 0 ? 2 * shape->count : shape->first()[at.rank] - begin_of(*shape, at.rank);
  return {count, count, true, shape, nullptr, at.rank};
}

namespace {

/// The grid of the communicator. Reports the error and returns null if it has none.
[[nodiscard]] QUARRY_SLOW topology* shape_of(rank_state& rank, MPI_Comm handle, bool is_grid,
                                             char const* function, int& error) {
  membership const* const at = member(rank, handle);
  error = MPI_SUCCESS;
  if (at == nullptr) {
    error = fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
    return nullptr;
  }
  topology* const shape = at->shared->shape;
  if (shape != nullptr && (shape->is_grid != 0) == is_grid) return shape;
  error = fail(rank, handle, MPI_ERR_TOPOLOGY, function, "communicator", handle);
  return nullptr;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Topo_test(MPI_Comm communicator, int* kind) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Topo_test", "communicator", communicator);
  neighbours const near = neighbours_of(rank, *at);
  *kind = !near.is_known             ? MPI_UNDEFINED
          : near.shape == nullptr    ? MPI_DIST_GRAPH
          : near.shape->is_grid != 0 ? MPI_CART
                                     : MPI_GRAPH;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Cartdim_get(MPI_Comm communicator, int* dimensions) {
  int error;
  topology const* const grid = shape_of(self(), communicator, true, "MPI_Cartdim_get", error);
  if (grid != nullptr) *dimensions = grid->count;
  return error;
}

QUARRY_HD int MPI_Cart_get(MPI_Comm communicator, int most, int* sizes, int* wraps, int* own) {
  rank_state& rank = self();
  int error;
  topology* const grid = shape_of(rank, communicator, true, "MPI_Cart_get", error);
  if (grid == nullptr) return error;
  if (most < grid->count)
    return fail(rank, communicator, MPI_ERR_DIMS, "MPI_Cart_get", "dimensions", most);
  for (std::int32_t i = 0; i < grid->count; ++i) {
    sizes[i] = grid->first()[i];
    wraps[i] = grid->second()[i];
  }
  return MPI_Cart_coords(communicator, static_cast<int>(member(rank, communicator)->rank), most,
                         own);
}

QUARRY_HD int MPI_Cart_rank(MPI_Comm communicator, int const* coordinates, int* result) {
  rank_state& rank = self();
  int error;
  topology* const grid = shape_of(rank, communicator, true, "MPI_Cart_rank", error);
  if (grid == nullptr) return error;
  std::int64_t number = 0;
  for (std::int32_t i = 0; i < grid->count; ++i) {
    std::int64_t const size = grid->first()[i];
    std::int64_t place = coordinates[i];
    if (place < 0 || place >= size) {
      if (grid->second()[i] == 0)
        return fail(rank, communicator, MPI_ERR_ARG, "MPI_Cart_rank", "coordinate", place);
      place = (place % size + size) % size;
    }
    number = number * size + place;
  }
  *result = static_cast<int>(number);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Cart_coords(MPI_Comm communicator, int number, int most, int* coordinates) {
  rank_state& rank = self();
  int error;
  topology* const grid = shape_of(rank, communicator, true, "MPI_Cart_coords", error);
  if (grid == nullptr) return error;
  if (static_cast<std::uint32_t>(number) >= member(rank, communicator)->size)
    return fail(rank, communicator, MPI_ERR_RANK, "MPI_Cart_coords", "rank", number);
  if (most < grid->count)
    return fail(rank, communicator, MPI_ERR_DIMS, "MPI_Cart_coords", "dimensions", most);
  for (std::int32_t i = grid->count; i-- != 0;) {
    coordinates[i] = number % grid->first()[i];
    number /= grid->first()[i];
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Cart_shift(MPI_Comm communicator, int dimension, int distance, int* source,
                             int* target) {
  rank_state& rank = self();
  int error;
  topology* const grid = shape_of(rank, communicator, true, "MPI_Cart_shift", error);
  if (grid == nullptr) return error;
  if (dimension < 0 || dimension >= grid->count)
    return fail(rank, communicator, MPI_ERR_DIMS, "MPI_Cart_shift", "dimension", dimension);
  std::uint32_t const own = member(rank, communicator)->rank;
  *source = shifted(*grid, own, dimension, -std::int64_t{distance});
  *target = shifted(*grid, own, dimension, distance);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Graphdims_get(MPI_Comm communicator, int* nodes, int* edges) {
  int error;
  topology* const graph = shape_of(self(), communicator, false, "MPI_Graphdims_get", error);
  if (graph == nullptr) return error;
  *nodes = graph->count;
  *edges = static_cast<int>(graph->words) - graph->count;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Graph_get(MPI_Comm communicator, int most_nodes, int most_edges, int* ends,
                            int* edges) {
  int error;
  topology* const graph = shape_of(self(), communicator, false, "MPI_Graph_get", error);
  if (graph == nullptr) return error;
  std::int32_t const all_edges = static_cast<std::int32_t>(graph->words) - graph->count;
  for (std::int32_t i = 0; i < most_nodes && i < graph->count; ++i) ends[i] = graph->first()[i];
  for (std::int32_t i = 0; i < most_edges && i < all_edges; ++i) edges[i] = graph->second()[i];
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Graph_neighbors_count(MPI_Comm communicator, int node, int* count) {
  rank_state& rank = self();
  int error;
  topology* const graph = shape_of(rank, communicator, false, "MPI_Graph_neighbors_count", error);
  if (graph == nullptr) return error;
  if (node < 0 || node >= graph->count)
    return fail(rank, communicator, MPI_ERR_RANK, "MPI_Graph_neighbors_count", "rank", node);
  *count = graph->first()[node] - begin_of(*graph, static_cast<std::uint32_t>(node));
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Graph_neighbors(MPI_Comm communicator, int node, int most, int* neighbours) {
  rank_state& rank = self();
  int error;
  topology* const graph = shape_of(rank, communicator, false, "MPI_Graph_neighbors", error);
  if (graph == nullptr) return error;
  if (node < 0 || node >= graph->count)
    return fail(rank, communicator, MPI_ERR_RANK, "MPI_Graph_neighbors", "rank", node);
  int const begin = begin_of(*graph, static_cast<std::uint32_t>(node));
  for (int i = 0; i < most && begin + i < graph->first()[node]; ++i)
    neighbours[i] = graph->second()[begin + i];
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Dist_graph_neighbors_count(MPI_Comm communicator, int* sources, int* targets,
                                             int* is_weighted) {
  char const* const name = "MPI_Dist_graph_neighbors_count";
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, name, "communicator", communicator);
  neighbours const near = neighbours_of(rank, *at);
  if (near.near == nullptr)
    return fail(rank, communicator, MPI_ERR_TOPOLOGY, name, "communicator", communicator);
  *sources = near.sources;
  *targets = near.targets;
  *is_weighted = near.near->is_weighted != 0 ? 1 : 0;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Dist_graph_neighbors(MPI_Comm communicator, int most_sources, int* sources,
                                       int* source_weights, int most_targets, int* targets,
                                       int* target_weights) {
  char const* const name = "MPI_Dist_graph_neighbors";
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, name, "communicator", communicator);
  neighbours const near = neighbours_of(rank, *at);
  neighbourhood* const all = near.near;
  if (all == nullptr)
    return fail(rank, communicator, MPI_ERR_TOPOLOGY, name, "communicator", communicator);
  for (int i = 0; i < most_sources && i < all->sources; ++i) {
    sources[i] = all->source()[i];
    if (all->is_weighted != 0 && source_weights != MPI_UNWEIGHTED)
      source_weights[i] = all->source_weights()[i];
  }
  for (int i = 0; i < most_targets && i < all->targets; ++i) {
    targets[i] = all->target()[i];
    if (all->is_weighted != 0 && target_weights != MPI_UNWEIGHTED)
      target_weights[i] = all->target_weights()[i];
  }
  return MPI_SUCCESS;
}

}  // extern "C"
