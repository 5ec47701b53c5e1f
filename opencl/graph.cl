// SPDX-License-Identifier: Apache-2.0
// Builds a directed graph from edges whose vertex ids are not known before. The graph is a map from
// ids to lists of links. Work-items add edges at any time. (Seed: KMA, section 5.3.)
#pragma once

#include "map.cl"
#include "reserve.cl"

// A graph is a map whose keys are ids. A node is an entry of this map, and the entry's value is the
// list of the node's links.
typedef quarry_map quarry_graph;

typedef struct quarry_graph_link {
  quarry_ref next;
  quarry_ref target;  // a node
} quarry_graph_link;

// The memory that a work-item keeps between its edges.
typedef struct quarry_graph_builder {
  quarry_reserve reserve;  // for nodes and links, which have one size class
  quarry_ref nodes[2];     // memory for the next new nodes, or 0
} quarry_graph_builder;

static inline quarry_graph_builder quarry_graph_builder_empty(void) {
  quarry_graph_builder const builder = {quarry_reserve_empty(), {0u, 0u}};
  return builder;
}

// Adds the edge, and its nodes if they are new. Keeps parallel edges. Returns false and changes
// nothing if the heap has no memory or the graph has no table. Therefore the function first
// allocates memory for two new nodes. The builder keeps the memory of nodes that were not new.
static inline bool quarry_graph_add_edge(quarry_heap heap, __global quarry_graph* graph,
                                         uint source, uint target, quarry_graph_builder* builder) {
  if (graph->table == 0u) return false;
  for (uint i = 0; i < 2u; ++i) {
    if (builder->nodes[i] != 0u) continue;
    builder->nodes[i] = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_map_entry));
    if (builder->nodes[i] == 0u) return false;
  }
  quarry_ref const link = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_graph_link));
  if (link == 0u) return false;
  bool is_new;
  quarry_ref const source_node =
      quarry_map_ensure_with(heap, graph, source, 0u, &builder->nodes[0], &is_new);
  quarry_ref const target_node =
      quarry_map_ensure_with(heap, graph, target, 0u, &builder->nodes[1], &is_new);
  ((__global quarry_graph_link*)quarry_at(heap, link))->target = target_node;  // handover: owner
  (void)quarry_list_push(heap, quarry_map_value(heap, source_node), link);
  return true;
}

// Frees the memory that the builder still has. Call it after the last edge.
static inline void quarry_graph_finish(quarry_heap heap, quarry_graph_builder* builder) {
  for (uint i = 0; i < 2u; ++i) {
    (void)quarry_free(heap, builder->nodes[i]);
    builder->nodes[i] = 0u;
  }
  quarry_reserve_return(heap, &builder->reserve);
}

// Removes and frees the nodes, with their links, of buckets `item`, `item` + `items`, and so on.
// Returns the number of these nodes. Free the table afterwards.
static inline uint quarry_graph_clear(quarry_heap heap, __global quarry_graph* graph, uint item,
                                      uint items) {
  ulong const buckets = quarry_map_buckets(graph);
  for (ulong bucket = item; bucket < buckets; bucket += items) {
    quarry_ref node = *quarry_map_bucket(heap, graph, (uint)bucket);
    for (; node != 0u; node = quarry_map_entry_at(heap, node)->chain)
      (void)quarry_list_clear(heap, quarry_map_value(heap, node));
  }
  return quarry_map_clear(heap, graph, item, items);
}
