// SPDX-License-Identifier: Apache-2.0
// Builds a directed graph from edges whose ids are not known before: a map from ids to lists of
// links. Work-items add edges at any time. (Seed: KMA, section 5.3.)
#pragma once

#include "group.cl"
#include "map.cl"

// A graph is a map: keys are ids, and a value is the list of its node's links. A node is an entry.
typedef quarry_map quarry_graph;

typedef struct quarry_graph_link {
  quarry_ref next;
  quarry_ref target;  // a node
} quarry_graph_link;

// What a work-item allocated for its next edge. Zeros at first.
typedef struct quarry_graph_builder {
  quarry_ref node;
  quarry_ref link;
} quarry_graph_builder;

// Allocates for the next edge of each work-item of a group at once. All of them must call; `scratch`:
// QUARRY_GROUP_WORDS words of local memory. Without it, each edge allocates for itself.
static inline void quarry_graph_refill(quarry_heap heap, quarry_graph_builder* builder, __local uint* scratch) {
  quarry_ref const node =
      quarry_malloc_group(heap, builder->node == 0u ? sizeof(quarry_map_entry) : QUARRY_NOTHING, scratch);
  if (node != 0u) builder->node = node;
  quarry_ref const link =
      quarry_malloc_group(heap, builder->link == 0u ? sizeof(quarry_graph_link) : QUARRY_NOTHING, scratch);
  if (link != 0u) builder->link = link;
}

// Adds the edge, and its nodes where they are new; parallel edges are kept. Returns false if the
// heap has no memory or the map no empty place; the nodes may have been added by then.
static inline bool quarry_graph_add_edge(quarry_heap heap, __global quarry_graph* graph, uint source, uint target,
                                         quarry_graph_builder* builder) {
  bool is_new;
  quarry_ref const source_node = quarry_map_ensure_with(heap, graph, source, 0u, &builder->node, &is_new);
  quarry_ref const target_node = quarry_map_ensure_with(heap, graph, target, 0u, &builder->node, &is_new);
  if (source_node == 0u || target_node == 0u) return false;
  if (builder->link == 0u) builder->link = quarry_malloc(heap, sizeof(quarry_graph_link));
  if (builder->link == 0u) return false;
  ((__global quarry_graph_link*)quarry_at(heap, builder->link))->target = target_node;
  quarry_list_push(heap, quarry_map_value(heap, source_node), builder->link);
  builder->link = 0u;
  return true;
}

// Frees what the builder has left. Call it after the last edge.
static inline void quarry_graph_finish(quarry_heap heap, quarry_graph_builder* builder) {
  (void)quarry_free(heap, builder->node);
  (void)quarry_free(heap, builder->link);
  builder->node = builder->link = 0u;
}

// Frees the nodes of each `items`-th place, from `item` on, and their links. Then free the table.
static inline void quarry_graph_clear(quarry_heap heap, __global quarry_graph* graph, uint item, uint items) {
  for (uint place = item; place <= graph->mask; place += items) {
    quarry_ref const node = *quarry_map_place(heap, graph, place);
    if (node != 0u && node != QUARRY_TOMBSTONE) (void)quarry_list_clear(heap, quarry_map_value(heap, node));
  }
  quarry_map_clear(heap, graph, item, items);
}
