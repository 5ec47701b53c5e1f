/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, groups, topologies, attributes and information. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_COMMUNICATORS_H
#define QUARRY_MPI_MPI_COMMUNICATORS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_COMM_TYPE_SHARED 1

#define MPI_GRAPH 1
#define MPI_CART 2
#define MPI_DIST_GRAPH 3
#define MPI_UNWEIGHTED ((int*)-2)
#define MPI_WEIGHTS_EMPTY ((int*)-3)

#define MPI_KEYVAL_INVALID 0
#define MPI_TAG_UB 1
#define MPI_HOST 2
#define MPI_IO 3
#define MPI_WTIME_IS_GLOBAL 4
#define MPI_UNIVERSE_SIZE 5
#define MPI_APPNUM 6
#define MPI_LASTUSEDCODE 7

#define MPI_MAX_INFO_KEY 255
#define MPI_MAX_INFO_VAL 1024

typedef int MPI_Comm_copy_attr_function(MPI_Comm old_communicator, int key, void* state,
                                        void* old_value, void* new_value, int* flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm communicator, int key, void* value, void* state);
typedef int MPI_Type_copy_attr_function(MPI_Datatype old_type, int key, void* state,
                                        void* old_value, void* new_value, int* flag);
typedef int MPI_Type_delete_attr_function(MPI_Datatype type, int key, void* value, void* state);
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function*)0)
#define MPI_COMM_DUP_FN ((MPI_Comm_copy_attr_function*)1)
#define MPI_COMM_NULL_DELETE_FN ((MPI_Comm_delete_attr_function*)0)
#define MPI_TYPE_NULL_COPY_FN ((MPI_Type_copy_attr_function*)0)
#define MPI_TYPE_DUP_FN ((MPI_Type_copy_attr_function*)1)
#define MPI_TYPE_NULL_DELETE_FN ((MPI_Type_delete_attr_function*)0)
#define MPI_NULL_COPY_FN ((MPI_Copy_function*)0)
#define MPI_DUP_FN ((MPI_Copy_function*)1)
#define MPI_NULL_DELETE_FN ((MPI_Delete_function*)0)

int MPI_Comm_rank(MPI_Comm communicator, int* rank);
int MPI_Comm_size(MPI_Comm communicator, int* size);
int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* copy);
int MPI_Comm_dup_with_info(MPI_Comm communicator, MPI_Info info, MPI_Comm* copy);
int MPI_Comm_idup(MPI_Comm communicator, MPI_Comm* copy, MPI_Request* request);
int MPI_Comm_idup_with_info(MPI_Comm communicator, MPI_Info info, MPI_Comm* copy,
                            MPI_Request* request);
int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* part);
int MPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info info, MPI_Comm* part);
int MPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm* part);
int MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag, MPI_Comm* part);
int MPI_Comm_free(MPI_Comm* communicator);
int MPI_Comm_disconnect(MPI_Comm* communicator);
int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int* result);
int MPI_Comm_set_name(MPI_Comm communicator, char const* name);
int MPI_Comm_get_name(MPI_Comm communicator, char* name, int* length);
int MPI_Comm_set_info(MPI_Comm communicator, MPI_Info info);
int MPI_Comm_get_info(MPI_Comm communicator, MPI_Info* info);

/* Intercommunicators */
int MPI_Comm_test_inter(MPI_Comm communicator, int* flag);
int MPI_Comm_remote_size(MPI_Comm communicator, int* size);
int MPI_Comm_remote_group(MPI_Comm communicator, MPI_Group* group);
int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm between, int remote_leader,
                         int tag, MPI_Comm* communicator);
int MPI_Intercomm_merge(MPI_Comm communicator, int high, MPI_Comm* merged);

int MPI_Comm_group(MPI_Comm communicator, MPI_Group* group);
int MPI_Group_size(MPI_Group group, int* size);
int MPI_Group_rank(MPI_Group group, int* rank);
int MPI_Group_translate_ranks(MPI_Group from, int count, int const* ranks, MPI_Group to,
                              int* results);
int MPI_Group_compare(MPI_Group first, MPI_Group second, int* result);
int MPI_Group_union(MPI_Group first, MPI_Group second, MPI_Group* result);
int MPI_Group_intersection(MPI_Group first, MPI_Group second, MPI_Group* result);
int MPI_Group_difference(MPI_Group first, MPI_Group second, MPI_Group* result);
int MPI_Group_incl(MPI_Group from, int count, int const* ranks, MPI_Group* result);
int MPI_Group_excl(MPI_Group from, int count, int const* ranks, MPI_Group* result);
int MPI_Group_range_incl(MPI_Group from, int count, int ranges[][3], MPI_Group* result);
int MPI_Group_range_excl(MPI_Group from, int count, int ranges[][3], MPI_Group* result);
int MPI_Group_free(MPI_Group* group);

/* Topologies */
int MPI_Topo_test(MPI_Comm communicator, int* kind);
int MPI_Dims_create(int ranks, int dimensions, int* sizes);
int MPI_Cart_create(MPI_Comm communicator, int dimensions, int const* sizes, int const* wraps,
                    int reorder, MPI_Comm* grid);
int MPI_Cart_map(MPI_Comm communicator, int dimensions, int const* sizes, int const* wraps,
                 int* rank);
int MPI_Cartdim_get(MPI_Comm grid, int* dimensions);
int MPI_Cart_get(MPI_Comm grid, int most, int* sizes, int* wraps, int* own);
int MPI_Cart_rank(MPI_Comm grid, int const* coordinates, int* rank);
int MPI_Cart_coords(MPI_Comm grid, int rank, int most, int* coordinates);
int MPI_Cart_shift(MPI_Comm grid, int dimension, int distance, int* source, int* target);
int MPI_Cart_sub(MPI_Comm grid, int const* remains, MPI_Comm* part);
int MPI_Graph_create(MPI_Comm communicator, int nodes, int const* ends, int const* edges,
                     int reorder, MPI_Comm* graph);
int MPI_Graph_map(MPI_Comm communicator, int nodes, int const* ends, int const* edges, int* rank);
int MPI_Graphdims_get(MPI_Comm graph, int* nodes, int* edges);
int MPI_Graph_get(MPI_Comm graph, int most_nodes, int most_edges, int* ends, int* edges);
int MPI_Graph_neighbors_count(MPI_Comm graph, int node, int* count);
int MPI_Graph_neighbors(MPI_Comm graph, int node, int most, int* neighbors);
int MPI_Dist_graph_create_adjacent(MPI_Comm communicator, int source_count, int const* sources,
                                   int const* source_weights, int target_count, int const* targets,
                                   int const* target_weights, MPI_Info info, int reorder,
                                   MPI_Comm* graph);
int MPI_Dist_graph_create(MPI_Comm communicator, int count, int const* sources, int const* degrees,
                          int const* targets, int const* weights, MPI_Info info, int reorder,
                          MPI_Comm* graph);
int MPI_Dist_graph_neighbors_count(MPI_Comm graph, int* sources, int* targets, int* is_weighted);
int MPI_Dist_graph_neighbors(MPI_Comm graph, int most_sources, int* sources, int* source_weights,
                             int most_targets, int* targets, int* target_weights);

/* Attributes */
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function* copy,
                           MPI_Comm_delete_attr_function* discard, int* key, void* state);
int MPI_Comm_free_keyval(int* key);
int MPI_Comm_set_attr(MPI_Comm communicator, int key, void* value);
int MPI_Comm_get_attr(MPI_Comm communicator, int key, void* value, int* flag);
int MPI_Comm_delete_attr(MPI_Comm communicator, int key);
int MPI_Keyval_create(MPI_Copy_function* copy, MPI_Delete_function* discard, int* key, void* state);
int MPI_Keyval_free(int* key);
int MPI_Attr_put(MPI_Comm communicator, int key, void* value);
int MPI_Attr_get(MPI_Comm communicator, int key, void* value, int* flag);
int MPI_Attr_delete(MPI_Comm communicator, int key);
int MPI_Type_create_keyval(MPI_Type_copy_attr_function* copy,
                           MPI_Type_delete_attr_function* discard, int* key, void* state);
int MPI_Type_free_keyval(int* key);
int MPI_Type_set_attr(MPI_Datatype type, int key, void* value);
int MPI_Type_get_attr(MPI_Datatype type, int key, void* value, int* flag);
int MPI_Type_delete_attr(MPI_Datatype type, int key);

/* Information */
int MPI_Info_create(MPI_Info* info);
int MPI_Info_create_env(int argc, char** argv, MPI_Info* info);
int MPI_Info_dup(MPI_Info info, MPI_Info* copy);
int MPI_Info_free(MPI_Info* info);
int MPI_Info_set(MPI_Info info, char const* key, char const* value);
int MPI_Info_get(MPI_Info info, char const* key, int length, char* value, int* flag);
int MPI_Info_get_string(MPI_Info info, char const* key, int* room, char* value, int* flag);
int MPI_Info_get_valuelen(MPI_Info info, char const* key, int* length, int* flag);
int MPI_Info_get_nkeys(MPI_Info info, int* count);
int MPI_Info_get_nthkey(MPI_Info info, int number, char* key);
int MPI_Info_delete(MPI_Info info, char const* key);

#ifdef __cplusplus
}
#endif
#endif
