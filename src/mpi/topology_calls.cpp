// SPDX-License-Identifier: Apache-2.0
// MPI's functions that make communicators with a topology.
#include "attributes.hpp"
#include "message_parts.hpp"
#include "scratch.hpp"
#include "splitting.hpp"
#include "topologies.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Rank 0 of the new communicator makes the topology by `make()`, which returns null if the heap
/// has no memory. All members call it. Frees the communicator if there is no memory. `old` is the
/// communicator that it was made of.
template <class Make>
QUARRY_HD int give_shape(rank_state& rank, MPI_Comm old, MPI_Comm* handle, call which,
                         char const* function, Make const& make) {
  if (*handle == MPI_COMM_NULL) return MPI_SUCCESS;
  membership& at = *member(rank, *handle);
  topology* shape = nullptr;
  if (spans_processes || at.rank == 0) at.shared->shape = shape = make();
  if (!spans_processes)
    broadcast_bytes(rank, at, &shape, sizeof(shape), 0, which);  // no member uses it earlier
  if (shape != nullptr) return MPI_SUCCESS;
  (void)MPI_Comm_free(handle);
  return fail(rank, old, MPI_ERR_NO_MEM, function, "communicator", old);
}

[[nodiscard]] QUARRY_SLOW topology* new_topology(bool is_grid, std::int32_t count,
                                                 std::uint32_t words) {
  void* const memory = allocate(sizeof(topology) + words * sizeof(int));
  return memory == nullptr ? nullptr : ::new (memory) topology{is_grid ? 1u : 0u, count, words, 0};
}

/// The number of ranks of a grid. Returns an MPI error code, which was reported.
QUARRY_SLOW int count_ranks(rank_state& rank, MPI_Comm communicator, int dimensions,
                            int const* sizes, std::int64_t& count, char const* function) {
  membership const* const at = member(rank, communicator);
  if (at == nullptr || is_intercommunicator(*at))
    return fail(rank, communicator, MPI_ERR_COMM, function, "communicator", communicator);
  if (dimensions < 0)
    return fail(rank, communicator, MPI_ERR_DIMS, function, "dimensions", dimensions);
  count = 1;
  for (int i = 0; i < dimensions; ++i) {
    if (sizes[i] <= 0)
      return fail(rank, communicator, MPI_ERR_DIMS, function, "size of a dimension", sizes[i]);
    count *= sizes[i];
    if (count > at->size)
      return fail(rank, communicator, MPI_ERR_DIMS, function, "ranks of the grid at least", count);
  }
  return MPI_SUCCESS;
}

/// Checks a graph. Returns an MPI error code, which was reported.
QUARRY_SLOW int check_graph(rank_state& rank, MPI_Comm communicator, int nodes, int const* ends,
                            int const* edges, char const* function) {
  membership const* const at = member(rank, communicator);
  if (at == nullptr || is_intercommunicator(*at))
    return fail(rank, communicator, MPI_ERR_COMM, function, "communicator", communicator);
  if (nodes < 0 || static_cast<std::uint32_t>(nodes) > at->size)
    return fail(rank, communicator, MPI_ERR_ARG, function, "nodes", nodes);
  for (int i = 0; i < nodes; ++i)
    if (ends[i] < (i == 0 ? 0 : ends[i - 1]))
      return fail(rank, communicator, MPI_ERR_ARG, function, "end of a node's neighbours", ends[i]);
  for (int i = 0; nodes != 0 && i < ends[nodes - 1]; ++i)
    if (edges[i] < 0 || edges[i] >= nodes)
      return fail(rank, communicator, MPI_ERR_ARG, function, "neighbour", edges[i]);
  return MPI_SUCCESS;
}

/// `base` to the power of `count`, or `most` if that is less.
[[nodiscard]] QUARRY_SLOW std::int64_t power(std::int64_t base, int count, std::int64_t most) {
  std::int64_t result = 1;
  for (int i = 0; i < count && result < most; ++i) result *= base;
  return result < most ? result : most;
}

/// Writes `number` as a product of `count` factors in descending order: of all such products the
/// one whose largest factor is least, then the next, and so on. Tries the divisors of the number as
/// first factor, then those of the rest, and goes back where no product is left.
QUARRY_SLOW void balance(rank_state& rank, int number, int count, int* factors) {
  constexpr int most_divisors = 1536;  // of a number below 2^31
  scratch const memory{rank, (most_divisors + 2 * static_cast<bytes>(count)) * sizeof(int)};
  auto* const divisors = reinterpret_cast<int*>(memory.data());
  int* const chosen = divisors + most_divisors;  // numbers of divisors
  int* const rest = chosen + count;              // what this factor and those after it must give
  int divisor_count = 0;
  for (int i = 1; i <= number / i; ++i)
    if (number % i == 0) divisors[divisor_count++] = i;
  for (int i = divisor_count; i-- != 0;)
    if (number / divisors[i] != divisors[i]) divisors[divisor_count++] = number / divisors[i];
  int place = 0;
  chosen[0] = -1;
  rest[0] = number;
  while (place < count) {
    int const limit = place == 0 ? number : factors[place - 1];
    int next = chosen[place] + 1;
    while (next < divisor_count && divisors[next] <= limit &&
           (rest[place] % divisors[next] != 0 ||
            power(divisors[next], count - place, rest[place]) < rest[place]))
      ++next;
    if (next == divisor_count || divisors[next] > limit) {
      --place;  // at the first place there is always one
      continue;
    }
    chosen[place] = next;
    factors[place] = divisors[next];
    if (++place == count) break;
    rest[place] = rest[place - 1] / factors[place - 1];
    chosen[place] = -1;
  }
}

/// A rank's edges in MPI_Dist_graph_create, and those of its neighbours that name it.
struct edge_counts {
  std::uint32_t in;           // atomic
  std::uint32_t out;          // atomic
  std::uint32_t written_in;   // atomic
  std::uint32_t written_out;  // atomic
  neighbourhood* made;
};

[[nodiscard]] QUARRY_SLOW neighbourhood* new_neighbourhood(std::int64_t sources,
                                                           std::int64_t targets, bool is_weighted) {
  void* const memory =
      allocate(sizeof(neighbourhood) + static_cast<bytes>(2 * (sources + targets)) * sizeof(int));
  return memory == nullptr ? nullptr
                           : ::new (memory) neighbourhood{static_cast<std::int32_t>(sources),
                                                          static_cast<std::int32_t>(targets),
                                                          is_weighted ? 1u : 0u};
}

/// Sorts neighbours by rank, then by weight, since other ranks write them in any order.
QUARRY_SLOW void sort_neighbours(int* ranks, int* weights, std::int32_t count) {
  for (std::int32_t gap = count / 2; gap > 0; gap /= 2)
    for (std::int32_t i = gap; i < count; ++i)
      for (std::int32_t k = i; k >= gap; k -= gap) {
        bool const is_less =
            ranks[k] != ranks[k - gap] ? ranks[k] < ranks[k - gap] : weights[k] < weights[k - gap];
        if (!is_less) break;
        int const rank = ranks[k], weight = weights[k];
        ranks[k] = ranks[k - gap];
        weights[k] = weights[k - gap];
        ranks[k - gap] = rank;
        weights[k - gap] = weight;
      }
}

/// Copies a communicator and gives this rank its neighbours, which the copy then has. `near` is
/// null if the heap had no memory.
QUARRY_SLOW int join_graph(rank_state& rank, MPI_Comm communicator, neighbourhood* near,
                           MPI_Comm* result, char const* function) {
  if (int const error =
          split(rank, communicator, 0, static_cast<int>(member(rank, communicator)->rank), result,
                call::dist_graph_create, function)) {
    if (near != nullptr) release(near);
    return error;
  }
  membership_extra* const extra =
      near == nullptr ? nullptr : make_extra(rank, *member(rank, *result));
  if (extra != nullptr) {
    extra->neighbours = near;
    return MPI_SUCCESS;
  }
  if (near != nullptr) release(near);
  (void)MPI_Comm_free(result);
  return fail(rank, communicator, MPI_ERR_NO_MEM, function, "communicator", communicator);
}

/// Checks ranks and weights. Returns an MPI error code, which was reported.
QUARRY_SLOW int check_neighbours(rank_state& rank, MPI_Comm communicator, std::int64_t count,
                                 int const* ranks, int const* weights, char const* function) {
  membership const* const at = member(rank, communicator);
  if (at == nullptr || is_intercommunicator(*at))
    return fail(rank, communicator, MPI_ERR_COMM, function, "communicator", communicator);
  if (count < 0) return fail(rank, communicator, MPI_ERR_ARG, function, "count", count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (static_cast<std::uint32_t>(ranks[i]) >= at->size)
      return fail(rank, communicator, MPI_ERR_RANK, function, "rank", ranks[i]);
    if (weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY && weights[i] < 0)
      return fail(rank, communicator, MPI_ERR_ARG, function, "weight", weights[i]);
  }
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Dims_create(int ranks, int dimensions, int* sizes) {
  rank_state& rank = self();
  char const* const name = "MPI_Dims_create";
  if (ranks <= 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "ranks", ranks);
  if (dimensions < 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_DIMS, name, "dimensions", dimensions);
  std::int64_t fixed = 1;
  int open = 0;
  for (int i = 0; i < dimensions; ++i) {
    if (sizes[i] < 0)
      return fail(rank, MPI_COMM_WORLD, MPI_ERR_DIMS, name, "size of a dimension", sizes[i]);
    if (sizes[i] == 0) ++open;
    if (sizes[i] != 0) fixed *= sizes[i];
    if (fixed > ranks || ranks % fixed != 0)
      return fail(rank, MPI_COMM_WORLD, MPI_ERR_DIMS, name, "ranks of the given dimensions", fixed);
  }
  if (open == 0)
    return fixed == ranks ? MPI_SUCCESS
                          : fail(rank, MPI_COMM_WORLD, MPI_ERR_DIMS, name, "ranks", ranks);
  scratch const memory{rank, static_cast<bytes>(open) * sizeof(int)};
  auto* const factors = reinterpret_cast<int*>(memory.data());
  balance(rank, static_cast<int>(ranks / fixed), open, factors);
  for (int i = 0, next = 0; i < dimensions; ++i)
    if (sizes[i] == 0) sizes[i] = factors[next++];
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Cart_create(MPI_Comm communicator, int dimensions, int const* sizes,
                              int const* wraps, int, MPI_Comm* result) {
  char const* const name = "MPI_Cart_create";
  rank_state& rank = self();
  std::int64_t count = 0;
  if (int const error = count_ranks(rank, communicator, dimensions, sizes, count, name))
    return error;
  auto const own = static_cast<int>(member(rank, communicator)->rank);
  if (int const error = split(rank, communicator, own < count ? 0 : MPI_UNDEFINED, own, result,
                              call::cart_create, name))
    return error;
  return give_shape(rank, communicator, result, call::cart_create, name, [&] {
    topology* const grid =
        new_topology(true, dimensions, 2 * static_cast<std::uint32_t>(dimensions));
    for (int i = 0; grid != nullptr && i < dimensions; ++i) {
      grid->first()[i] = sizes[i];
      grid->second()[i] = wraps[i] != 0 ? 1 : 0;
    }
    return grid;
  });
}

QUARRY_HD int MPI_Cart_map(MPI_Comm communicator, int dimensions, int const* sizes, int const*,
                           int* result) {
  rank_state& rank = self();
  std::int64_t count = 0;
  if (int const error = count_ranks(rank, communicator, dimensions, sizes, count, "MPI_Cart_map"))
    return error;
  auto const own = static_cast<int>(member(rank, communicator)->rank);
  *result = own < count ? own : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Cart_sub(MPI_Comm communicator, int const* remains, MPI_Comm* result) {
  char const* const name = "MPI_Cart_sub";
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, name, "communicator", communicator);
  topology* const old = at->shared->shape;
  if (old == nullptr || old->is_grid == 0)
    return fail(rank, communicator, MPI_ERR_TOPOLOGY, name, "communicator", communicator);
  auto const own = static_cast<int>(at->rank);
  int color = 0, rest = own;
  std::int64_t unit = 1;
  int kept = 0;
  for (std::int32_t i = old->count; i-- != 0;) {
    if (remains[i] != 0) {
      ++kept;
    } else {
      color += static_cast<int>(rest % old->first()[i] * unit);
      unit *= old->first()[i];
    }
    rest /= old->first()[i];
  }
  if (int const error = split(rank, communicator, color, own, result, call::cart_create, name))
    return error;
  return give_shape(rank, communicator, result, call::cart_create, name, [&] {
    topology* const grid = new_topology(true, kept, 2 * static_cast<std::uint32_t>(kept));
    for (std::int32_t i = 0, next = 0; grid != nullptr && i < old->count; ++i) {
      if (remains[i] == 0) continue;
      grid->first()[next] = old->first()[i];
      grid->second()[next++] = old->second()[i];
    }
    return grid;
  });
}

QUARRY_HD int MPI_Graph_create(MPI_Comm communicator, int nodes, int const* ends, int const* edges,
                               int, MPI_Comm* result) {
  char const* const name = "MPI_Graph_create";
  rank_state& rank = self();
  if (int const error = check_graph(rank, communicator, nodes, ends, edges, name)) return error;
  auto const own = static_cast<int>(member(rank, communicator)->rank);
  if (int const error = split(rank, communicator, own < nodes ? 0 : MPI_UNDEFINED, own, result,
                              call::graph_create, name))
    return error;
  return give_shape(rank, communicator, result, call::graph_create, name, [&] {
    int const all_edges = ends[nodes - 1];
    topology* const graph =
        new_topology(false, nodes, static_cast<std::uint32_t>(nodes + all_edges));
    if (graph == nullptr) return graph;
    for (int i = 0; i < nodes; ++i) graph->first()[i] = ends[i];
    for (int i = 0; i < all_edges; ++i) graph->second()[i] = edges[i];
    return graph;
  });
}

QUARRY_HD int MPI_Graph_map(MPI_Comm communicator, int nodes, int const* ends, int const* edges,
                            int* result) {
  rank_state& rank = self();
  if (int const error = check_graph(rank, communicator, nodes, ends, edges, "MPI_Graph_map"))
    return error;
  auto const own = static_cast<int>(member(rank, communicator)->rank);
  *result = own < nodes ? own : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Dist_graph_create_adjacent(MPI_Comm communicator, int source_count,
                                             int const* sources, int const* source_weights,
                                             int target_count, int const* targets,
                                             int const* target_weights, MPI_Info, int,
                                             MPI_Comm* result) {
  char const* const name = "MPI_Dist_graph_create_adjacent";
  rank_state& rank = self();
  if (int const error =
          check_neighbours(rank, communicator, source_count, sources, source_weights, name))
    return error;
  if (int const error =
          check_neighbours(rank, communicator, target_count, targets, target_weights, name))
    return error;
  bool const is_weighted = source_weights != MPI_UNWEIGHTED && target_weights != MPI_UNWEIGHTED;
  neighbourhood* const near = new_neighbourhood(source_count, target_count, is_weighted);
  for (int i = 0; near != nullptr && i < source_count; ++i) {
    near->source()[i] = sources[i];
    near->source_weights()[i] = is_weighted ? source_weights[i] : 1;
  }
  for (int i = 0; near != nullptr && i < target_count; ++i) {
    near->target()[i] = targets[i];
    near->target_weights()[i] = is_weighted ? target_weights[i] : 1;
  }
  return join_graph(rank, communicator, near, result, name);
}

/// The ranks meet in a table in which each has a line: they count the edges of each rank, make room
/// for them, and write them.
QUARRY_HD int MPI_Dist_graph_create(MPI_Comm communicator, int count, int const* sources,
                                    int const* degrees, int const* targets, int const* weights,
                                    MPI_Info, int, MPI_Comm* result) {
  char const* const name = "MPI_Dist_graph_create";
  constexpr call which = call::dist_graph_create;
  rank_state& rank = self();
  if constexpr (spans_processes) return fail_across_processes(rank, communicator, name);
  if (int const error = check_neighbours(rank, communicator, count, sources, MPI_UNWEIGHTED, name))
    return error;
  std::int64_t edges = 0;
  for (int i = 0; i < count; ++i) {
    if (degrees[i] < 0) return fail(rank, communicator, MPI_ERR_ARG, name, "degree", degrees[i]);
    edges += degrees[i];
  }
  if (int const error = check_neighbours(rank, communicator, edges, targets, weights, name))
    return error;
  membership& at = *member(rank, communicator);
  std::uint32_t const own = at.rank;
  edge_counts* lines = nullptr;
  if (own == 0) lines = static_cast<edge_counts*>(allocate(at.size * sizeof(edge_counts)));
  broadcast_bytes(rank, at, &lines, sizeof(lines), 0, which);
  if (lines == nullptr)
    return fail(rank, communicator, MPI_ERR_NO_MEM, name, "communicator", communicator);
  lines[own] = {};
  barrier(rank, at, which);
  auto const add = [](std::uint32_t& counter) {
    return simt::atomic_ref<std::uint32_t>{counter}.fetch_add(1, simt::relaxed);
  };
  auto const for_each_edge = [&](auto const& act) {
    std::int64_t edge = 0;
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < degrees[i]; ++k, ++edge) act(sources[i], targets[edge], edge);
  };
  for_each_edge([&](int source, int target, std::int64_t) {
    (void)add(lines[source].out);
    (void)add(lines[target].in);
  });
  barrier(rank, at, which);
  bool const is_weighted = weights != MPI_UNWEIGHTED;
  edge_counts& line = lines[own];
  neighbourhood* const near = new_neighbourhood(line.in, line.out, is_weighted);
  line.made = near;
  barrier(rank, at, which);
  for_each_edge([&](int source, int target, std::int64_t edge) {
    int const weight = is_weighted ? weights[edge] : 1;
    if (neighbourhood* const from = lines[source].made) {
      std::uint32_t const place = add(lines[source].written_out);
      from->target()[place] = target;
      from->target_weights()[place] = weight;
    }
    if (neighbourhood* const to = lines[target].made) {
      std::uint32_t const place = add(lines[target].written_in);
      to->source()[place] = source;
      to->source_weights()[place] = weight;
    }
  });
  barrier(rank, at, which);
  if (own == 0) release(lines);
  if (near != nullptr) {
    sort_neighbours(near->source(), near->source_weights(), near->sources);
    sort_neighbours(near->target(), near->target_weights(), near->targets);
  }
  return join_graph(rank, communicator, near, result, name);
}

}  // extern "C"
