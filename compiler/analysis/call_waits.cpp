// SPDX-License-Identifier: Apache-2.0
#include "call_waits.hpp"

#include "call_models.hpp"
#include "model_program.hpp"

#include <llvm/ADT/StringMap.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>

namespace quarry::compiler {

using namespace llvm;

namespace {

struct wait_row {
  char const* name;
  company waits_for;
  std::int8_t communicator = -1;
  std::int8_t count = -1;  // the argument that must not be 0
  std::int8_t type = -1;
};

/// Functions of MPI that are in no table are collective operations of unknown ranks.
constexpr wait_row rows[] = {
    {"MPI_Init", company::none},  // in this runtime
    {"MPI_Init_thread", company::none},
    {"MPI_Initialized", company::none},
    {"MPI_Finalized", company::none},
    {"MPI_Get_version", company::none},
    {"MPI_Get_processor_name", company::none},
    {"MPI_Wtime", company::none},
    {"MPI_Wtick", company::none},
    {"MPI_Abort", company::none},
    {"MPI_Error_string", company::none},
    {"MPI_Error_class", company::none},
    {"MPI_Comm_set_errhandler", company::none},
    {"MPI_Comm_get_errhandler", company::none},
    {"MPI_Comm_create_errhandler", company::none},
    {"MPI_Errhandler_set", company::none},
    {"MPI_Errhandler_free", company::none},
    {"MPI_Comm_rank", company::none},
    {"MPI_Comm_size", company::none},
    {"MPI_Comm_compare", company::none},
    {"MPI_Isend", company::none},
    {"MPI_Issend", company::none},
    {"MPI_Ibsend", company::none},
    {"MPI_Irsend", company::none},
    {"MPI_Irecv", company::none},
    {"MPI_Get_count", company::none},
    {"MPI_Start", company::none},
    {"MPI_Startall", company::none},
    {"MPI_Request_free", company::none},
    {"MPI_Buffer_attach", company::none},
    {"MPI_Reduce_local", company::none},
    {"MPI_Op_commutative", company::none},
    {"MPI_Ibarrier", company::none},
    {"MPI_Barrier_init", company::none},
    {"MPI_Ibcast", company::none},
    {"MPI_Bcast_init", company::none},
    {"MPI_Ireduce", company::none},
    {"MPI_Reduce_init", company::none},
    {"MPI_Iallreduce", company::none},
    {"MPI_Allreduce_init", company::none},
    {"MPI_Igather", company::none},
    {"MPI_Gather_init", company::none},
    {"MPI_Igatherv", company::none},
    {"MPI_Gatherv_init", company::none},
    {"MPI_Iscatter", company::none},
    {"MPI_Scatter_init", company::none},
    {"MPI_Iscatterv", company::none},
    {"MPI_Scatterv_init", company::none},
    {"MPI_Iallgather", company::none},
    {"MPI_Allgather_init", company::none},
    {"MPI_Iallgatherv", company::none},
    {"MPI_Allgatherv_init", company::none},
    {"MPI_Ialltoall", company::none},
    {"MPI_Alltoall_init", company::none},
    {"MPI_Ialltoallv", company::none},
    {"MPI_Alltoallv_init", company::none},
    {"MPI_Ialltoallw", company::none},
    {"MPI_Alltoallw_init", company::none},
    {"MPI_Ireduce_scatter", company::none},
    {"MPI_Reduce_scatter_init", company::none},
    {"MPI_Ireduce_scatter_block", company::none},
    {"MPI_Reduce_scatter_block_init", company::none},
    {"MPI_Iscan", company::none},
    {"MPI_Scan_init", company::none},
    {"MPI_Iexscan", company::none},
    {"MPI_Exscan_init", company::none},
    {"MPI_Neighbor_allgather", company::some},
    {"MPI_Ineighbor_allgather", company::none},
    {"MPI_Neighbor_allgather_init", company::none},
    {"MPI_Neighbor_allgatherv", company::some},
    {"MPI_Ineighbor_allgatherv", company::none},
    {"MPI_Neighbor_allgatherv_init", company::none},
    {"MPI_Neighbor_alltoall", company::some},
    {"MPI_Ineighbor_alltoall", company::none},
    {"MPI_Neighbor_alltoall_init", company::none},
    {"MPI_Neighbor_alltoallv", company::some},
    {"MPI_Ineighbor_alltoallv", company::none},
    {"MPI_Neighbor_alltoallv_init", company::none},
    {"MPI_Neighbor_alltoallw", company::some},
    {"MPI_Ineighbor_alltoallw", company::none},
    {"MPI_Neighbor_alltoallw_init", company::none},
    {"MPI_Op_create", company::none},
    {"MPI_Op_free", company::none},
    {"MPI_Type_contiguous", company::none},
    {"MPI_Type_vector", company::none},
    {"MPI_Type_commit", company::none},
    {"MPI_Type_free", company::none},
    {"MPI_Type_get_extent", company::none},
    {"MPI_Type_size", company::none},
    {"MPI_Comm_set_name", company::none},
    {"MPI_Comm_get_name", company::none},
    {"MPI_Comm_set_info", company::none},
    {"MPI_Comm_get_info", company::none},
    {"MPI_Comm_test_inter", company::none},
    {"MPI_Comm_remote_size", company::none},
    {"MPI_Comm_remote_group", company::none},
    {"MPI_Comm_group", company::none},
    {"MPI_Group_size", company::none},
    {"MPI_Group_rank", company::none},
    {"MPI_Group_translate_ranks", company::none},
    {"MPI_Group_compare", company::none},
    {"MPI_Group_union", company::none},
    {"MPI_Group_intersection", company::none},
    {"MPI_Group_difference", company::none},
    {"MPI_Group_incl", company::none},
    {"MPI_Group_excl", company::none},
    {"MPI_Group_range_incl", company::none},
    {"MPI_Group_range_excl", company::none},
    {"MPI_Group_free", company::none},
    {"MPI_Topo_test", company::none},
    {"MPI_Dims_create", company::none},
    {"MPI_Cart_map", company::none},
    {"MPI_Cartdim_get", company::none},
    {"MPI_Cart_get", company::none},
    {"MPI_Cart_rank", company::none},
    {"MPI_Cart_coords", company::none},
    {"MPI_Cart_shift", company::none},
    {"MPI_Graph_map", company::none},
    {"MPI_Graphdims_get", company::none},
    {"MPI_Graph_get", company::none},
    {"MPI_Graph_neighbors_count", company::none},
    {"MPI_Graph_neighbors", company::none},
    {"MPI_Dist_graph_neighbors_count", company::none},
    {"MPI_Dist_graph_neighbors", company::none},
    {"MPI_Comm_create_keyval", company::none},
    {"MPI_Comm_free_keyval", company::none},
    {"MPI_Comm_set_attr", company::none},
    {"MPI_Comm_get_attr", company::none},
    {"MPI_Comm_delete_attr", company::none},
    {"MPI_Keyval_create", company::none},
    {"MPI_Keyval_free", company::none},
    {"MPI_Attr_put", company::none},
    {"MPI_Attr_get", company::none},
    {"MPI_Attr_delete", company::none},
    {"MPI_Type_create_keyval", company::none},
    {"MPI_Type_free_keyval", company::none},
    {"MPI_Type_set_attr", company::none},
    {"MPI_Type_get_attr", company::none},
    {"MPI_Type_delete_attr", company::none},
    {"MPI_Info_create", company::none},
    {"MPI_Info_create_env", company::none},
    {"MPI_Info_dup", company::none},
    {"MPI_Info_free", company::none},
    {"MPI_Info_set", company::none},
    {"MPI_Info_get", company::none},
    {"MPI_Info_get_string", company::none},
    {"MPI_Info_get_valuelen", company::none},
    {"MPI_Info_get_nkeys", company::none},
    {"MPI_Info_get_nthkey", company::none},
    {"MPI_Info_delete", company::none},
    {"MPI_Type_create_hvector", company::none},
    {"MPI_Type_hvector", company::none},
    {"MPI_Type_indexed", company::none},
    {"MPI_Type_create_hindexed", company::none},
    {"MPI_Type_hindexed", company::none},
    {"MPI_Type_create_indexed_block", company::none},
    {"MPI_Type_create_hindexed_block", company::none},
    {"MPI_Type_create_struct", company::none},
    {"MPI_Type_struct", company::none},
    {"MPI_Type_create_resized", company::none},
    {"MPI_Type_dup", company::none},
    {"MPI_Type_create_subarray", company::none},
    {"MPI_Type_create_darray", company::none},
    {"MPI_Type_size_x", company::none},
    {"MPI_Type_get_extent_x", company::none},
    {"MPI_Type_get_true_extent", company::none},
    {"MPI_Type_get_true_extent_x", company::none},
    {"MPI_Type_extent", company::none},
    {"MPI_Type_lb", company::none},
    {"MPI_Type_ub", company::none},
    {"MPI_Type_get_envelope", company::none},
    {"MPI_Type_get_contents", company::none},
    {"MPI_Type_set_name", company::none},
    {"MPI_Type_get_name", company::none},
    {"MPI_Type_match_size", company::none},
    {"MPI_Get_elements", company::none},
    {"MPI_Get_elements_x", company::none},
    {"MPI_Status_set_elements", company::none},
    {"MPI_Status_set_elements_x", company::none},
    {"MPI_Get_address", company::none},
    {"MPI_Address", company::none},
    {"MPI_Aint_add", company::none},
    {"MPI_Aint_diff", company::none},
    {"MPI_Pack", company::none},
    {"MPI_Unpack", company::none},
    {"MPI_Pack_size", company::none},
    {"MPI_Pack_external", company::none},
    {"MPI_Unpack_external", company::none},
    {"MPI_Pack_external_size", company::none},
    {"MPI_Query_thread", company::none},
    {"MPI_Is_thread_main", company::none},
    {"MPI_Get_library_version", company::none},
    {"MPI_Alloc_mem", company::none},
    {"MPI_Free_mem", company::none},
    {"MPI_Pcontrol", company::none},
    {"MPI_Add_error_class", company::none},
    {"MPI_Add_error_code", company::none},
    {"MPI_Add_error_string", company::none},
    {"MPI_Comm_call_errhandler", company::none},
    {"MPI_Errhandler_create", company::none},
    {"MPI_Errhandler_get", company::none},
    {"MPI_Isendrecv", company::none},
    {"MPI_Isendrecv_replace", company::none},
    {"MPI_Send_init", company::none},
    {"MPI_Ssend_init", company::none},
    {"MPI_Bsend_init", company::none},
    {"MPI_Rsend_init", company::none},
    {"MPI_Recv_init", company::none},
    {"MPI_Grequest_start", company::none},
    {"MPI_Grequest_complete", company::none},
    {"MPI_Mrecv", company::none},
    {"MPI_Imrecv", company::none},
    {"MPI_Cancel", company::none},
    {"MPI_Test_cancelled", company::none},
    {"MPI_Status_set_cancelled", company::none},
    {"MPI_Send", company::some},
    {"MPI_Ssend", company::some},
    {"MPI_Bsend", company::some},
    {"MPI_Rsend", company::some},
    {"MPI_Recv", company::some},
    {"MPI_Sendrecv", company::some},
    {"MPI_Sendrecv_replace", company::some},
    {"MPI_Wait", company::some},
    {"MPI_Waitall", company::some},
    {"MPI_Waitany", company::some},
    {"MPI_Waitsome", company::some},
    {"MPI_Test", company::some},
    {"MPI_Testall", company::some},
    {"MPI_Testany", company::some},
    {"MPI_Testsome", company::some},
    {"MPI_Probe", company::some},
    {"MPI_Iprobe", company::some},
    {"MPI_Mprobe", company::some},
    {"MPI_Improbe", company::some},
    {"MPI_Request_get_status", company::some},
    {"MPI_Buffer_detach", company::some},
    // Collective operations, but the last of their communicators: they match no other.
    {"MPI_Comm_free", company::some},
    {"MPI_Comm_disconnect", company::some},
    {"MPI_Finalize", company::some},
    {"MPI_Bcast", company::together, 4},
    {"MPI_Reduce", company::together, 6},
    {"MPI_Gather", company::together, 7},
    {"MPI_Gatherv", company::together, 8},
    {"MPI_Scatter", company::together, 7},
    {"MPI_Scatterv", company::together, 8},
    {"MPI_Allgatherv", company::together, 7},
    {"MPI_Alltoallv", company::together, 8},
    {"MPI_Alltoallw", company::together, 8},
    {"MPI_Reduce_scatter", company::together, 5},
    {"MPI_Reduce_scatter_block", company::together, 5},
    {"MPI_Scan", company::together, 5},
    {"MPI_Exscan", company::together, 5},
    {"MPI_Comm_dup", company::together, 0},
    {"MPI_Comm_split", company::together, 0},
    {"MPI_Comm_dup_with_info", company::together, 0},
    {"MPI_Comm_split_type", company::together, 0},
    {"MPI_Comm_idup", company::together, 0},
    {"MPI_Comm_idup_with_info", company::together, 0},
    {"MPI_Comm_create", company::together, 0},
    {"MPI_Cart_create", company::together, 0},
    {"MPI_Cart_sub", company::together, 0},
    {"MPI_Graph_create", company::together, 0},
    {"MPI_Dist_graph_create_adjacent", company::together, 0},
    {"MPI_Dist_graph_create", company::together, 0},
    {"MPI_Intercomm_create", company::together},   // of both groups
    {"MPI_Intercomm_merge", company::together},    // of both groups
    {"MPI_Comm_create_group", company::together},  // of the group
    {"MPI_Barrier", company::all, 0},
    {"MPI_Allreduce", company::all, 5, 2, 3},
    {"MPI_Allgather", company::all, 6, 4, 5},
    {"MPI_Alltoall", company::all, 6, 4, 5},
};

wait_row const* wait_row_of(StringRef name) {
  static StringMap<wait_row const*> const index = [] {
    StringMap<wait_row const*> made;
    for (wait_row const& row : rows) made.try_emplace(row.name, &row);
    return made;
  }();
  auto const found = index.find(without_large_counts(name));
  return found == index.end() ? nullptr : found->second;
}

/// Whether the call moves data from each rank to each other one.
bool has_data(CallBase const& call, wait_row const& row) {
  if (row.count < 0) return true;
  auto const* const count = dyn_cast<ConstantInt>(call.getArgOperand(row.count));
  return count != nullptr && !count->isZero() && isa<ConstantInt>(call.getArgOperand(row.type));
}

}  // namespace

call_wait wait_of(CallBase const& call) {
  if (isa<IntrinsicInst>(call) || call.isInlineAsm()) return {};
  Function const* const called = call.getCalledFunction();
  if (called == nullptr) return {company::some};
  if (called->getName() == waiting_end) return {company::some};
  if (called->getName() == meeting_end) return {company::together};
  if (called->getName().starts_with(model_prefix)) return {};
  StringRef const name = name_in_c(called->getName());
  if (!name.starts_with("MPI_")) {
    // After setjmp, control may come from code that has waited.
    bool const is_known = model_of(name) != nullptr && !call.hasFnAttr(Attribute::ReturnsTwice);
    return {is_known ? company::none : company::some};
  }
  wait_row const* const row = wait_row_of(name);
  if (row == nullptr) return {company::together};
  int const last = std::max({row->communicator, row->count, row->type});
  if (last >= static_cast<int>(call.arg_size())) return {company::together};
  bool const is_short = row->waits_for == company::all && !has_data(call, *row);
  return {is_short ? company::together : row->waits_for, row->communicator};
}

}  // namespace quarry::compiler
