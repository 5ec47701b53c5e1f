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
  quarry_ref node;         // memory for the next new node, or 0
} quarry_graph_builder;

static inline quarry_graph_builder quarry_graph_builder_empty(void) {
  quarry_graph_builder const builder = {quarry_reserve_empty(), 0u};
  return builder;
}

// Adds the edge, and its nodes where they are new; parallel edges are kept. Returns false if the
// heap has no memory or the map no empty place; the nodes may have been added by then.
static inline bool quarry_graph_add_edge(quarry_heap heap, __global quarry_graph* graph, uint source, uint target,
                                         quarry_graph_builder* builder) {
  quarry_ref nodes[2];
  quarry_ref const link = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_graph_link));
  if (link == 0u) return false;
  for (uint i = 0; i < 2u; ++i) {
    bool is_new;
    if (builder->node == 0u)
      builder->node = quarry_reserve_malloc(heap, &builder->reserve, sizeof(quarry_map_entry));
    nodes[i] = quarry_map_ensure_with(heap, graph, i == 0u ? source : target, 0u, &builder->node, &is_new);
    if (nodes[i] != 0u) continue;
    (void)quarry_free(heap, link);
    return false;
  }
  ((__global quarry_graph_link*)quarry_at(heap, link))->target = nodes[1];
  quarry_list_push(heap, quarry_map_value(heap, nodes[0]), link);
  return true;
}

// Frees what the builder has left. Call it after the last edge.
static inline void quarry_graph_finish(quarry_heap heap, quarry_graph_builder* builder) {
  (void)quarry_free(heap, builder->node);
  builder->node = 0u;
  quarry_reserve_return(heap, &builder->reserve);
}

// Frees the nodes of each `items`-th place, from `item` on, and their links. Then free the table.
static inline void quarry_graph_clear(quarry_heap heap, __global quarry_graph* graph, uint item, uint items) {
  for (uint place = item; place <= graph->mask; place += items) {
    quarry_ref const node = *quarry_map_place(heap, graph, place);
    if (node != 0u && node != QUARRY_TOMBSTONE) (void)quarry_list_clear(heap, quarry_map_value(heap, node));
  }
  quarry_map_clear(heap, graph, item, items);
}
