// SPDX-License-Identifier: Apache-2.0
// Builds a directed graph from edges whose ids are not known before: a table of nodes, and a list
// of links for each node. Any work-item may add any edge at any time. (Seed: KMA, section 5.3; its
// binary tree is a hash table here, because a tree of sorted ids has the depth of a list.)
#pragma once

#include "list.cl"

typedef struct quarry_graph_link {
  quarry_ref next;
  quarry_ref target;  // a node
} quarry_graph_link;

typedef struct quarry_graph_node {
  uint id;
  quarry_ref links;  // a list of quarry_graph_link
} quarry_graph_node;

static inline __global quarry_graph_node* quarry_graph_node_at(quarry_heap heap, quarry_ref node) {
  return (__global quarry_graph_node*)quarry_at(heap, node);
}

// Returns the node of `id`, and adds it if there is none. Returns 0, and adds nothing, if the heap
// has no memory or the table no free place. `table`: references of nodes, 0 at first; its size is a
// power of two, `mask` + 1. If two work-items add one id at once, one of them frees its node again.
static inline quarry_ref quarry_graph_ensure(quarry_heap heap, __global quarry_ref* table, uint mask,
                                             uint id) {
  quarry_ref fresh = 0u;
  uint place = (id * 0x9e3779b1u) ^ (id >> 15u);
  for (uint step = 0u; step <= mask; ++step, ++place) {
    __global quarry_ref* const at = table + (place & mask);
    quarry_ref found = quarry_load_acquire(at);
    if (found == 0u) {
      if (fresh == 0u) {
        fresh = quarry_malloc(heap, sizeof(quarry_graph_node));
        if (fresh == 0u) return 0u;
        quarry_graph_node_at(heap, fresh)->id = id;
        quarry_graph_node_at(heap, fresh)->links = 0u;
      }
      found = quarry_cas_acq_rel(at, 0u, fresh);
      if (found == 0u) return fresh;
    }
    if (quarry_graph_node_at(heap, found)->id == id) {
      if (fresh != 0u) (void)quarry_free(heap, fresh);
      return found;
    }
  }
  if (fresh != 0u) (void)quarry_free(heap, fresh);
  return 0u;
}

// Adds the edge, and its nodes where they are new; parallel edges are kept. Returns false if the
// heap has no memory or the table no free place; the nodes may have been added by then.
static inline bool quarry_graph_add_edge(quarry_heap heap, __global quarry_ref* table, uint mask, uint source,
                                         uint target) {
  quarry_ref const source_node = quarry_graph_ensure(heap, table, mask, source);
  quarry_ref const target_node = quarry_graph_ensure(heap, table, mask, target);
  if (source_node == 0u || target_node == 0u) return false;
  quarry_ref const link = quarry_malloc(heap, sizeof(quarry_graph_link));
  if (link == 0u) return false;
  ((__global quarry_graph_link*)quarry_at(heap, link))->target = target_node;
  quarry_list_push(heap, &quarry_graph_node_at(heap, source_node)->links, link);
  return true;
}

// Frees the node in `place` of the table and its links.
static inline void quarry_graph_remove_place(quarry_heap heap, __global quarry_ref* table, uint place) {
  quarry_ref const node = table[place];
  if (node == 0u) return;
  (void)quarry_list_clear(heap, &quarry_graph_node_at(heap, node)->links);
  (void)quarry_free(heap, node);
  table[place] = 0u;
}
