// SPDX-License-Identifier: Apache-2.0
// MPI's objects in programs that quarry-mpicc --check made.
#include "checks.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The ranks that free the communicator together; null if there is none with this handle.
[[nodiscard]] QUARRY_HD communicator const* group_freeing(MPI_Comm handle) {
  membership const* const at = member(self(), handle);
  return at == nullptr ? nullptr : compared_group(*at);
}

/// Before MPI_Init.
QUARRY_SLOW void report_second_init() {
  rank_state& rank = self();
  (void)checks_of(rank);  // for the report at the end, also if the program makes no other call
  if (rank.is_initialized == 0) return;
  report_line line;
  line << rank.rank << ": MPI_Init was called before this call of it: ";
  line.at(own_record().place).write(rank);
}

/// After a communicator is freed.
QUARRY_SLOW void note_end_of(MPI_Comm handle, communicator const* group) {
  note_freed(made_object::kind::communicator, handle);
  forget_operations(group);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

/// Before each call that MPI allows only between MPI_Init and MPI_Finalize.
QUARRY_SLOW void quarry_check_time() {
  rank_state& rank = self();
  if (checks_of(rank) == nullptr) return;
  bool const has_ended = rank.stage == life::finalized;
  if (rank.is_initialized != 0 && !has_ended) return;
  report_line line;
  line << rank.rank << ": this call is "
       << (has_ended ? "after MPI_Finalize: " : "before MPI_Init: ");
  line.at(own_record().place).write(rank);
}
QUARRY_HD int quarry_check_MPI_Init(int* argc, char*** argv) {
  report_second_init();
  return MPI_Init(argc, argv);
}
QUARRY_HD int quarry_check_MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  report_second_init();
  return MPI_Init_thread(argc, argv, wanted, provided);
}

QUARRY_HD int quarry_check_MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* copy) {
  check_collective(communicator, {.name = "MPI_Comm_dup"});
  int const error = MPI_Comm_dup(communicator, copy);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *copy : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_dup_with_info(MPI_Comm communicator, MPI_Info info,
                                                  MPI_Comm* copy) {
  check_collective(communicator, {.name = "MPI_Comm_dup_with_info"});
  int const error = MPI_Comm_dup_with_info(communicator, info, copy);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *copy : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_idup(MPI_Comm communicator, MPI_Comm* copy,
                                         MPI_Request* request) {
  check_collective(communicator, {.name = "MPI_Comm_idup"});
  int const error =
      note_begun(MPI_Comm_idup(communicator, copy, request), request, begun_operation::collective);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *copy : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_idup_with_info(MPI_Comm communicator, MPI_Info info,
                                                   MPI_Comm* copy, MPI_Request* request) {
  check_collective(communicator, {.name = "MPI_Comm_idup_with_info"});
  int const error = note_begun(MPI_Comm_idup_with_info(communicator, info, copy, request), request,
                               begun_operation::collective);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *copy : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_split(MPI_Comm communicator, int color, int key,
                                          MPI_Comm* part) {
  check_collective(communicator, {.name = "MPI_Comm_split"});
  int const error = MPI_Comm_split(communicator, color, key, part);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *part : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_split_type(MPI_Comm communicator, int type, int key,
                                               MPI_Info info, MPI_Comm* part) {
  check_collective(communicator, {.name = "MPI_Comm_split_type"});
  int const error = MPI_Comm_split_type(communicator, type, key, info, part);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *part : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_create(MPI_Comm communicator, MPI_Group group, MPI_Comm* part) {
  check_collective(communicator, {.name = "MPI_Comm_create"});
  int const error = MPI_Comm_create(communicator, group, part);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *part : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag,
                                                 MPI_Comm* part) {
  int const error = MPI_Comm_create_group(communicator, group, tag, part);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *part : 0);
}
QUARRY_HD int quarry_check_MPI_Cart_create(MPI_Comm communicator, int dimensions, int const* sizes,
                                           int const* wraps, int reorder, MPI_Comm* grid) {
  check_collective(communicator, {.name = "MPI_Cart_create"});
  int const error = MPI_Cart_create(communicator, dimensions, sizes, wraps, reorder, grid);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *grid : 0);
}
QUARRY_HD int quarry_check_MPI_Graph_create(MPI_Comm communicator, int nodes, int const* ends,
                                            int const* edges, int reorder, MPI_Comm* graph) {
  check_collective(communicator, {.name = "MPI_Graph_create"});
  int const error = MPI_Graph_create(communicator, nodes, ends, edges, reorder, graph);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *graph : 0);
}
QUARRY_HD int quarry_check_MPI_Dist_graph_create(MPI_Comm communicator, int count,
                                                 int const* sources, int const* degrees,
                                                 int const* targets, int const* weights,
                                                 MPI_Info info, int reorder, MPI_Comm* graph) {
  check_collective(communicator, {.name = "MPI_Dist_graph_create"});
  int const error = MPI_Dist_graph_create(communicator, count, sources, degrees, targets, weights,
                                          info, reorder, graph);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *graph : 0);
}
QUARRY_HD int quarry_check_MPI_Dist_graph_create_adjacent(MPI_Comm communicator, int source_count,
                                                          int const* sources,
                                                          int const* source_weights,
                                                          int target_count, int const* targets,
                                                          int const* target_weights, MPI_Info info,
                                                          int reorder, MPI_Comm* graph) {
  check_collective(communicator, {.name = "MPI_Dist_graph_create_adjacent"});
  int const error =
      MPI_Dist_graph_create_adjacent(communicator, source_count, sources, source_weights,
                                     target_count, targets, target_weights, info, reorder, graph);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *graph : 0);
}
QUARRY_HD int quarry_check_MPI_Cart_sub(MPI_Comm communicator, int const* remains, MPI_Comm* part) {
  check_collective(communicator, {.name = "MPI_Cart_sub"});
  int const error = MPI_Cart_sub(communicator, remains, part);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *part : 0);
}
QUARRY_HD int quarry_check_MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm between,
                                                int remote_leader, int tag, MPI_Comm* made) {
  check_collective(local, {.name = "MPI_Intercomm_create"});
  int const error = MPI_Intercomm_create(local, local_leader, between, remote_leader, tag, made);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *made : 0);
}
QUARRY_HD int quarry_check_MPI_Intercomm_merge(MPI_Comm communicator, int high, MPI_Comm* merged) {
  check_collective(communicator, {.name = "MPI_Intercomm_merge"});
  int const error = MPI_Intercomm_merge(communicator, high, merged);
  return note_made(error, made_object::kind::communicator, error == MPI_SUCCESS ? *merged : 0);
}
QUARRY_HD int quarry_check_MPI_Type_contiguous(int count, MPI_Datatype old_type,
                                               MPI_Datatype* new_type) {
  int const error = MPI_Type_contiguous(count, old_type, new_type);
  return note_made(error, made_object::kind::type, error == MPI_SUCCESS ? *new_type : 0);
}
QUARRY_HD int quarry_check_MPI_Type_vector(int count, int block_length, int stride,
                                           MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_vector(count, block_length, stride, old_type, new_type);
  return note_made(error, made_object::kind::type, error == MPI_SUCCESS ? *new_type : 0);
}
QUARRY_HD int quarry_check_MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  int const error = MPI_Op_create(function, commutes, op);
  return note_made(error, made_object::kind::op, error == MPI_SUCCESS ? *op : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_group(MPI_Comm communicator, MPI_Group* group) {
  int const error = MPI_Comm_group(communicator, group);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *group : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_remote_group(MPI_Comm communicator, MPI_Group* group) {
  int const error = MPI_Comm_remote_group(communicator, group);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *group : 0);
}
QUARRY_HD int quarry_check_MPI_Group_range_incl(MPI_Group from, int count, int ranges[][3],
                                                MPI_Group* result) {
  int const error = MPI_Group_range_incl(from, count, ranges, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_range_excl(MPI_Group from, int count, int ranges[][3],
                                                MPI_Group* result) {
  int const error = MPI_Group_range_excl(from, count, ranges, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_incl(MPI_Group from, int count, int const* ranks,
                                          MPI_Group* result) {
  int const error = MPI_Group_incl(from, count, ranks, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_excl(MPI_Group from, int count, int const* ranks,
                                          MPI_Group* result) {
  int const error = MPI_Group_excl(from, count, ranks, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_union(MPI_Group first, MPI_Group second, MPI_Group* result) {
  int const error = MPI_Group_union(first, second, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_intersection(MPI_Group first, MPI_Group second,
                                                  MPI_Group* result) {
  int const error = MPI_Group_intersection(first, second, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Group_difference(MPI_Group first, MPI_Group second,
                                                MPI_Group* result) {
  int const error = MPI_Group_difference(first, second, result);
  return note_made(error, made_object::kind::group, error == MPI_SUCCESS ? *result : 0);
}
QUARRY_HD int quarry_check_MPI_Info_create(MPI_Info* info) {
  int const error = MPI_Info_create(info);
  return note_made(error, made_object::kind::info, error == MPI_SUCCESS ? *info : 0);
}
QUARRY_HD int quarry_check_MPI_Comm_get_info(MPI_Comm communicator, MPI_Info* info) {
  int const error = MPI_Comm_get_info(communicator, info);
  return note_made(error, made_object::kind::info, error == MPI_SUCCESS ? *info : 0);
}
QUARRY_HD int quarry_check_MPI_Info_dup(MPI_Info info, MPI_Info* copy) {
  int const error = MPI_Info_dup(info, copy);
  return note_made(error, made_object::kind::info, error == MPI_SUCCESS ? *copy : 0);
}
QUARRY_HD int quarry_check_MPI_Type_free(MPI_Datatype* freed) {
  int const handle = *freed;
  int const error = MPI_Type_free(freed);
  if (error == MPI_SUCCESS) note_freed(made_object::kind::type, handle);
  return error;
}
QUARRY_HD int quarry_check_MPI_Op_free(MPI_Op* freed) {
  int const handle = *freed;
  int const error = MPI_Op_free(freed);
  if (error == MPI_SUCCESS) note_freed(made_object::kind::op, handle);
  return error;
}
QUARRY_HD int quarry_check_MPI_Group_free(MPI_Group* freed) {
  int const handle = *freed;
  int const error = MPI_Group_free(freed);
  if (error == MPI_SUCCESS) note_freed(made_object::kind::group, handle);
  return error;
}
QUARRY_HD int quarry_check_MPI_Info_free(MPI_Info* freed) {
  int const handle = *freed;
  int const error = MPI_Info_free(freed);
  if (error == MPI_SUCCESS) note_freed(made_object::kind::info, handle);
  return error;
}
QUARRY_HD int quarry_check_MPI_Comm_free(MPI_Comm* freed) {
  int const handle = *freed;
  check_collective(handle, {.name = "MPI_Comm_free"});
  communicator const* const group = group_freeing(handle);
  int const error = MPI_Comm_free(freed);
  if (error == MPI_SUCCESS) note_end_of(handle, group);
  return error;
}
QUARRY_HD int quarry_check_MPI_Comm_disconnect(MPI_Comm* freed) {
  int const handle = *freed;
  check_collective(handle, {.name = "MPI_Comm_disconnect"});
  communicator const* const group = group_freeing(handle);
  int const error = MPI_Comm_disconnect(freed);
  if (error == MPI_SUCCESS) note_end_of(handle, group);
  return error;
}
QUARRY_HD int quarry_check_MPI_Finalize() {
  check_collective(MPI_COMM_WORLD, {.name = "MPI_Finalize"});
  int const error = MPI_Finalize();
  report_leftovers(self());
  return error;
}

}  // extern "C"
