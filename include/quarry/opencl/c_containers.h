/* SPDX-License-Identifier: Apache-2.0 */
/* The containers of OpenCL kernels, for hosts in C and in languages that call C.
 *
 * The structs have the layout of the kernels' structs: quarry_opencl_vector is quarry_vector. Pass
 * a buffer with such a struct to a kernel as `__global quarry_vector*`, and read the struct from
 * the buffer when the kernel is complete. A struct of zeros is an empty container, except for the
 * element_bytes of a vector and of an array list. A map needs quarry_opencl_map_init first.
 *
 * All functions need a heap that is mapped (quarry_opencl_heap_map): QUARRY_BAD_ARGUMENT if the
 * heap is not mapped or a pointer is null. Pointers that they return are valid until the heap is
 * unmapped. A function may change the struct. Then write the struct to the buffer before the next
 * kernel. Kernels and these functions must have made the struct in this heap; its references are
 * not checked. QUARRY_OUT_OF_MEMORY means that the heap has no memory, that the container did not
 * change, and that the heap counts a fault.
 *
 * A list is a quarry_opencl_ref, and its nodes are the caller's structs, which begin with the
 * reference of the next node. Walk the list with quarry_opencl_at. */
#ifndef QUARRY_OPENCL_C_CONTAINERS_H
#define QUARRY_OPENCL_C_CONTAINERS_H

#include "quarry/opencl/c_api.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* A vector (opencl/vector.cl). Only `element_bytes` may be set, and only of an empty vector. */
typedef struct quarry_opencl_vector {
  uint32_t element_bytes;
  uint32_t size; /* the elements have indices 0 to size - 1 */
  uint32_t lost; /* pushes that found no memory */
  uint32_t internal[27];
} quarry_opencl_vector;

/* An array list (opencl/array_list.cl). */
typedef struct quarry_opencl_array_list {
  uint32_t element_bytes;
  uint32_t size;
  uint32_t internal;
} quarry_opencl_array_list;

/* A queue of 32-bit values (opencl/queue.cl). */
typedef struct quarry_opencl_queue {
  uint32_t internal[3];
} quarry_opencl_queue;

/* A hash map from 32-bit keys to 32-bit values (opencl/map.cl). */
typedef struct quarry_opencl_map {
  quarry_opencl_ref table; /* 0: the map has no table, so no entry can be added */
  uint32_t mask;           /* the table's buckets - 1 */
  uint32_t size;           /* entries */
  uint32_t internal;
} quarry_opencl_map;

/* A graph (opencl/graph.cl) is a map from ids to lists of links. */
typedef quarry_opencl_map quarry_opencl_graph;

/* An ordered map from 32-bit keys to 32-bit values (opencl/ordered_map.cl). */
typedef struct quarry_opencl_ordered_map {
  uint32_t size; /* entries */
  uint32_t internal[12];
} quarry_opencl_ordered_map;

/* Adds `count` elements, whose bytes are not set. Sets `*first` to the first element's
 * index. QUARRY_BAD_ARGUMENT if `count` or element_bytes is 0. */
quarry_status quarry_opencl_vector_push(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                        uint32_t count, uint32_t* first);
/* Sets `*element` to the address of an element. QUARRY_BAD_ARGUMENT if there is no such
 * element. */
quarry_status quarry_opencl_vector_at(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                      uint32_t index, void** element);
/* Copies the elements [first, first + count) to `target`, which has count * element_bytes bytes.
 * QUARRY_BAD_ARGUMENT if the vector lacks one of them. */
quarry_status quarry_opencl_vector_read(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                        uint32_t first, uint32_t count, void* target);
/* Copies count * element_bytes bytes from `source` to the elements [first, first + count). Errors
 * are those of quarry_opencl_vector_read. */
quarry_status quarry_opencl_vector_write(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                         uint32_t first, uint32_t count, void const* source);
/* Frees all elements. */
quarry_status quarry_opencl_vector_clear(quarry_opencl_heap* heap, quarry_opencl_vector* vector);

/* Adds `count` consecutive elements, whose bytes are not set. Sets `*first` to the index of the
 * first element and `*elements` to its address; either may be null. QUARRY_BAD_ARGUMENT if `count`
 * or element_bytes is 0. */
quarry_status quarry_opencl_array_list_grow(quarry_opencl_heap* heap,
                                            quarry_opencl_array_list* list, uint32_t count,
                                            uint32_t* first, void** elements);
/* Copies the elements [first, first + count) to `target`. O(chunks of the list + count).
 * QUARRY_BAD_ARGUMENT if the list lacks one of them. */
quarry_status quarry_opencl_array_list_read(quarry_opencl_heap* heap,
                                            quarry_opencl_array_list* list, uint32_t first,
                                            uint32_t count, void* target);
/* Frees all elements. */
quarry_status quarry_opencl_array_list_clear(quarry_opencl_heap* heap,
                                             quarry_opencl_array_list* list);

/* Adds a value. quarry_opencl_queue_push and _pop also free rings that are closed and empty, as
 * quarry_queue_trim does in kernels. */
quarry_status quarry_opencl_queue_push(quarry_opencl_heap* heap, quarry_opencl_queue* queue,
                                       uint32_t value);
/* Removes the oldest values, at most `capacity`, and writes them to `values` in their order. Sets
 * `*count` to the number of removed values. */
quarry_status quarry_opencl_queue_pop(quarry_opencl_heap* heap, quarry_opencl_queue* queue,
                                      uint32_t* values, uint64_t capacity, uint64_t* count);
/* Removes all values, and frees their memory. */
quarry_status quarry_opencl_queue_clear(quarry_opencl_heap* heap, quarry_opencl_queue* queue);

/* Makes `map`, whose bytes may have any value, an empty map with a table of `buckets` buckets,
 * rounded up to a power of two. Twice the expected number of entries is a good number.
 * QUARRY_BAD_ARGUMENT if `buckets` is 0 or more than 2^31. */
quarry_status quarry_opencl_map_init(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                     uint32_t buckets);
/* Sets `*value` to the address of the value of `key`, or to null if the map lacks it. */
quarry_status quarry_opencl_map_find(quarry_opencl_heap* heap, quarry_opencl_map* map, uint32_t key,
                                     uint32_t** value);
/* Sets the value of `key`, which it adds if the map lacks it. QUARRY_BAD_ARGUMENT if the map has no
 * table. quarry_opencl_map_set and _erase also free the entries that kernels erased. */
quarry_status quarry_opencl_map_set(quarry_opencl_heap* heap, quarry_opencl_map* map, uint32_t key,
                                    uint32_t value);
/* Removes a key. QUARRY_NOT_IN_USE if the map lacks it. */
quarry_status quarry_opencl_map_erase(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                      uint32_t key);
/* Writes the keys and values of the map, at most `capacity`, in no order. Sets `*count` to the
 * number of written entries. `keys` or `values` may be null. */
quarry_status quarry_opencl_map_read(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                     uint32_t* keys, uint32_t* values, uint64_t capacity,
                                     uint64_t* count);
/* Frees all entries and the table. The map then has no table. */
quarry_status quarry_opencl_map_destroy(quarry_opencl_heap* heap, quarry_opencl_map* map);

/* The same for ordered maps. A struct of zeros is an empty ordered map. */
quarry_status quarry_opencl_ordered_map_find(quarry_opencl_heap* heap,
                                             quarry_opencl_ordered_map* map, uint32_t key,
                                             uint32_t** value);
quarry_status quarry_opencl_ordered_map_set(quarry_opencl_heap* heap,
                                            quarry_opencl_ordered_map* map, uint32_t key,
                                            uint32_t value);
/* Writes the keys from `first_key` on, in ascending order, and their values, as
 * quarry_opencl_map_read does. */
quarry_status quarry_opencl_ordered_map_read(quarry_opencl_heap* heap,
                                             quarry_opencl_ordered_map* map, uint32_t first_key,
                                             uint32_t* keys, uint32_t* values, uint64_t capacity,
                                             uint64_t* count);
/* Frees all entries. */
quarry_status quarry_opencl_ordered_map_clear(quarry_opencl_heap* heap,
                                              quarry_opencl_ordered_map* map);

/* A graph as compressed sparse rows: the edges of vertex v are targets[offsets[v]] up to
 * targets[offsets[v + 1] - 1]. */
typedef struct quarry_opencl_csr {
  uint64_t vertices;
  uint64_t edges;
  uint32_t* ids;     /* ids of the vertices, ascending */
  uint64_t* offsets; /* vertices + 1 offsets */
  uint32_t* targets; /* indices into ids, ascending for each vertex */
} quarry_opencl_csr;

/* Reads a graph into new arrays of the host; free them with quarry_opencl_csr_free.
 * QUARRY_BAD_ARGUMENT if a link refers to no vertex; QUARRY_OUT_OF_MEMORY if the host has no memory
 * for the arrays. A graph without a table is empty. */
quarry_status quarry_opencl_graph_get_csr(quarry_opencl_heap* heap, quarry_opencl_graph* graph,
                                          quarry_opencl_csr* csr);
/* Frees the arrays, and sets all fields of `*csr` to 0. Ignores null and a struct of zeros. */
void quarry_opencl_csr_free(quarry_opencl_csr* csr);
/* Frees the vertices, the edges and the table. */
quarry_status quarry_opencl_graph_destroy(quarry_opencl_heap* heap, quarry_opencl_graph* graph);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
