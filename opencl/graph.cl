// SPDX-License-Identifier: Apache-2.0
// Builds a directed graph from edges whose ids are not known before: a map from ids to lists of
// links. Work-items add edges at any time. (Seed: KMA, section 5.3.)
#pragma once

#include "map.cl"
#include "reserve.cl"

// A graph is a map: keys are ids, and a value is the list of its node's links. A node is an entry.
typedef quarry_map quarry_graph;

typedef struct quarry_graph_link {
  quarry_ref next;
  quarry_ref target;  // a node
} quarry_graph_link;

// What a work-item keeps between its edges.
typedef struct quarry_graph_builder {
  quarry_reserve reserve;  // for nodes and links, which have one size class
  quarry_ref nodes[2];     // memory for the next new nodes, or 0
} quarry_graph_builder;

static inline quarry_graph_builder quarry_graph_builder_empty(void) {
  quarry_graph_builder const builder = {quarry_reserve_empty(), {0u, 0u}};
  return builder;
}

// Adds the edge, and its nodes where they are new; parallel edges are kept. Returns false, and changes
// nothing, if the heap has no memory, or the graph has no table. So it allocates for two new nodes first; what
// it does not need stays with the builder.
static inline bool quarry_graph_add_edge(quarry_heap heap, __global quarry_graph* graph, uint source, uint target,
                                         quarry_graph_builder* builder) {
  if (graph->table == 0u) return false;
  for (uint i = 0; i < 2u; ++i) {
    if (builder->nodes[i] != 0u) continue;
    builder->nodes[i] = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_map_entry));
    if (builder->nodes[i] == 0u) return false;
  }
  quarry_ref const link = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_graph_link));
  if (link == 0u) return false;
  bool is_new;
  quarry_ref const source_node = quarry_map_ensure_with(heap, graph, source, 0u, &builder->nodes[0], &is_new);
  quarry_ref const target_node = quarry_map_ensure_with(heap, graph, target, 0u, &builder->nodes[1], &is_new);
  ((__global quarry_graph_link*)quarry_at(heap, link))->target = target_node;
  (void)quarry_list_push(heap, quarry_map_value(heap, source_node), link);
  return true;
}

// Frees what the builder has left. Call it after the last edge.
static inline void quarry_graph_finish(quarry_heap heap, quarry_graph_builder* builder) {
  for (uint i = 0; i < 2u; ++i) {
    (void)quarry_free(heap, builder->nodes[i]);
    builder->nodes[i] = 0u;
  }
  quarry_reserve_return(heap, &builder->reserve);
}

// Removes and frees the nodes of each `items`-th place, from `item` on, and their links. Returns how many nodes
// there were. Then free the table.
static inline uint quarry_graph_clear(quarry_heap heap, __global quarry_graph* graph, uint item, uint items) {
  ulong const places = quarry_map_places(graph);
  for (ulong place = item; place < places; place += items) {
    quarry_ref node = *quarry_map_place(heap, graph, (uint)place);
    for (; node != 0u; node = quarry_map_entry_at(heap, node)->chain)
      (void)quarry_list_clear(heap, quarry_map_value(heap, node));
  }
  return quarry_map_clear(heap, graph, item, items);
}
