// SPDX-License-Identifier: Apache-2.0
// Which arguments of MPI's functions a trace needs. A function that has no row leaves a record with
// its time alone.
#pragma once

#include <cstdint>
#include <iterator>

namespace quarry::compiler {

/// How a call is traced (src/mpi/trace.hpp).
enum class tracing : std::uint8_t {
  call,
  send,
  receive,
  sendrecv,        // two records
  begun_sendrecv,  // MPI_Isendrecv: two records
  wait,
  test,
  probe,
  collective,
  begun_send,
  begun_receive,
  begun_collective,
  sends_later,       // MPI_Send_init
  receives_later,    // MPI_Recv_init
  collective_later,  // MPI_Barrier_init
  start,
  request_end,
};

/// The numbers of a function's arguments; -1: it has none.
struct traced_call {
  static constexpr std::int8_t world = 100;  // as a communicator: MPI_COMM_WORLD

  char const* name;
  tracing kind;
  std::int8_t communicator = -1;
  std::int8_t count = -1;  // of elements, or of requests
  std::int8_t type = -1;
  std::int8_t peer = -1;  // or the root
  std::int8_t tag = -1;
  std::int8_t request = -1;
  std::int8_t done = -1;     // a flag, or how many requests are complete
  std::int8_t indices = -1;  // of the complete requests
  std::int8_t status = -1;
  // what a sendrecv receives
  std::int8_t received_peer = -1;
  std::int8_t received_tag = -1;
};

inline constexpr traced_call traced_calls[] = {
    {"MPI_Send", tracing::send, 5, 1, 2, 3, 4},
    {"MPI_Ssend", tracing::send, 5, 1, 2, 3, 4},
    {"MPI_Bsend", tracing::send, 5, 1, 2, 3, 4},
    {"MPI_Rsend", tracing::send, 5, 1, 2, 3, 4},
    {"MPI_Isend", tracing::begun_send, 5, 1, 2, 3, 4, 6},
    {"MPI_Issend", tracing::begun_send, 5, 1, 2, 3, 4, 6},
    {"MPI_Ibsend", tracing::begun_send, 5, 1, 2, 3, 4, 6},
    {"MPI_Irsend", tracing::begun_send, 5, 1, 2, 3, 4, 6},
    {"MPI_Send_init", tracing::sends_later, 5, 1, 2, 3, 4, 6},
    {"MPI_Ssend_init", tracing::sends_later, 5, 1, 2, 3, 4, 6},
    {"MPI_Bsend_init", tracing::sends_later, 5, 1, 2, 3, 4, 6},
    {"MPI_Rsend_init", tracing::sends_later, 5, 1, 2, 3, 4, 6},
    {"MPI_Recv", tracing::receive, 5, 1, 2, 3, 4, -1, -1, -1, 6},
    {"MPI_Irecv", tracing::begun_receive, 5, 1, 2, 3, 4, 6},
    {"MPI_Recv_init", tracing::receives_later, 5, 1, 2, 3, 4, 6},
    {"MPI_Sendrecv", tracing::sendrecv, 10, 1, 2, 3, 4, -1, -1, -1, 11, 8, 9},
    {"MPI_Sendrecv_replace", tracing::sendrecv, 7, 1, 2, 3, 4, -1, -1, -1, 8, 5, 6},
    {"MPI_Isendrecv", tracing::begun_sendrecv, 10, 1, 2, 3, 4, 11, -1, -1, -1, 8, 9},
    {"MPI_Isendrecv_replace", tracing::begun_sendrecv, 7, 1, 2, 3, 4, 8, -1, -1, -1, 5, 6},
    // MPI_Mrecv gets the message that these have taken: their order is that of the messages
    {"MPI_Mprobe", tracing::receive, 2, -1, -1, 0, 1, -1, -1, -1, 4},
    {"MPI_Improbe", tracing::receive, 2, -1, -1, 0, 1, -1, 3, -1, 5},
    {"MPI_Probe", tracing::probe, 2, -1, -1, 0, 1, -1, -1, -1, 3},
    {"MPI_Iprobe", tracing::probe, 2, -1, -1, 0, 1, -1, 3, -1, 4},
    {"MPI_Wait", tracing::wait, -1, -1, -1, -1, -1, 0, -1, -1, 1},
    {"MPI_Waitall", tracing::wait, -1, 0, -1, -1, -1, 1, -1, -1, 2},
    {"MPI_Waitany", tracing::wait, -1, 0, -1, -1, -1, 1, -1, 2, 3},
    {"MPI_Waitsome", tracing::wait, -1, 0, -1, -1, -1, 1, 2, 3, 4},
    {"MPI_Test", tracing::test, -1, -1, -1, -1, -1, 0, 1, -1, 2},
    {"MPI_Testall", tracing::test, -1, 0, -1, -1, -1, 1, 2, -1, 3},
    {"MPI_Testany", tracing::test, -1, 0, -1, -1, -1, 1, 3, 2, 4},
    {"MPI_Testsome", tracing::test, -1, 0, -1, -1, -1, 1, 2, 3, 4},
    {"MPI_Start", tracing::start, -1, -1, -1, -1, -1, 0},
    {"MPI_Startall", tracing::start, -1, 0, -1, -1, -1, 1},
    {"MPI_Request_free", tracing::request_end, -1, -1, -1, -1, -1, 0},

    {"MPI_Finalize", tracing::collective, traced_call::world},
    {"MPI_Barrier", tracing::collective, 0},
    {"MPI_Bcast", tracing::collective, 4, 1, 2, 3},
    {"MPI_Reduce", tracing::collective, 6, 2, 3, 5},
    {"MPI_Allreduce", tracing::collective, 5, 2, 3},
    {"MPI_Scan", tracing::collective, 5, 2, 3},
    {"MPI_Exscan", tracing::collective, 5, 2, 3},
    {"MPI_Gather", tracing::collective, 7, 1, 2, 6},
    {"MPI_Gatherv", tracing::collective, 8, 1, 2, 7},
    {"MPI_Scatter", tracing::collective, 7, 4, 5, 6},
    {"MPI_Scatterv", tracing::collective, 8, 5, 6, 7},
    {"MPI_Allgather", tracing::collective, 6, 1, 2},
    {"MPI_Allgatherv", tracing::collective, 7, 1, 2},
    {"MPI_Alltoall", tracing::collective, 6, 1, 2},
    {"MPI_Alltoallv", tracing::collective, 8},
    {"MPI_Alltoallw", tracing::collective, 8},
    {"MPI_Reduce_scatter", tracing::collective, 5},
    {"MPI_Reduce_scatter_block", tracing::collective, 5, 2, 3},
    {"MPI_Neighbor_allgather", tracing::call, 6, 1, 2},
    {"MPI_Neighbor_alltoall", tracing::call, 6, 1, 2},
    {"MPI_Ibarrier", tracing::begun_collective, 0, -1, -1, -1, -1, 1},
    {"MPI_Ibcast", tracing::begun_collective, 4, 1, 2, 3, -1, 5},
    {"MPI_Ireduce", tracing::begun_collective, 6, 2, 3, 5, -1, 7},
    {"MPI_Iallreduce", tracing::begun_collective, 5, 2, 3, -1, -1, 6},
    {"MPI_Iscan", tracing::begun_collective, 5, 2, 3, -1, -1, 6},
    {"MPI_Iexscan", tracing::begun_collective, 5, 2, 3, -1, -1, 6},
    {"MPI_Igather", tracing::begun_collective, 7, 1, 2, 6, -1, 8},
    {"MPI_Igatherv", tracing::begun_collective, 8, 1, 2, 7, -1, 9},
    {"MPI_Iscatter", tracing::begun_collective, 7, 4, 5, 6, -1, 8},
    {"MPI_Iscatterv", tracing::begun_collective, 8, 5, 6, 7, -1, 9},
    {"MPI_Iallgather", tracing::begun_collective, 6, 1, 2, -1, -1, 7},
    {"MPI_Iallgatherv", tracing::begun_collective, 7, 1, 2, -1, -1, 8},
    {"MPI_Ialltoall", tracing::begun_collective, 6, 1, 2, -1, -1, 7},
    {"MPI_Ialltoallv", tracing::begun_collective, 8, -1, -1, -1, -1, 9},
    {"MPI_Ialltoallw", tracing::begun_collective, 8, -1, -1, -1, -1, 9},
    {"MPI_Ireduce_scatter", tracing::begun_collective, 5, -1, -1, -1, -1, 6},
    {"MPI_Ireduce_scatter_block", tracing::begun_collective, 5, 2, 3, -1, -1, 6},
    {"MPI_Barrier_init", tracing::collective_later, 0, -1, -1, -1, -1, 2},
    {"MPI_Bcast_init", tracing::collective_later, 4, 1, 2, 3, -1, 6},
    {"MPI_Reduce_init", tracing::collective_later, 6, 2, 3, 5, -1, 8},
    {"MPI_Allreduce_init", tracing::collective_later, 5, 2, 3, -1, -1, 7},
    {"MPI_Scan_init", tracing::collective_later, 5, 2, 3, -1, -1, 7},
    {"MPI_Exscan_init", tracing::collective_later, 5, 2, 3, -1, -1, 7},
    {"MPI_Gather_init", tracing::collective_later, 7, 1, 2, 6, -1, 9},
    {"MPI_Gatherv_init", tracing::collective_later, 8, 1, 2, 7, -1, 10},
    {"MPI_Scatter_init", tracing::collective_later, 7, 4, 5, 6, -1, 9},
    {"MPI_Scatterv_init", tracing::collective_later, 8, 5, 6, 7, -1, 10},
    {"MPI_Allgather_init", tracing::collective_later, 6, 1, 2, -1, -1, 8},
    {"MPI_Allgatherv_init", tracing::collective_later, 7, 1, 2, -1, -1, 9},
    {"MPI_Alltoall_init", tracing::collective_later, 6, 1, 2, -1, -1, 8},
    {"MPI_Alltoallv_init", tracing::collective_later, 8, -1, -1, -1, -1, 10},
    {"MPI_Alltoallw_init", tracing::collective_later, 8, -1, -1, -1, -1, 10},
    {"MPI_Reduce_scatter_init", tracing::collective_later, 5, -1, -1, -1, -1, 7},
    {"MPI_Reduce_scatter_block_init", tracing::collective_later, 5, 2, 3, -1, -1, 7},
    {"MPI_Comm_split", tracing::collective, 0},
    {"MPI_Comm_split_type", tracing::collective, 0},
    {"MPI_Comm_dup", tracing::collective, 0},
    {"MPI_Comm_dup_with_info", tracing::collective, 0},
    {"MPI_Comm_create", tracing::collective, 0},
    {"MPI_Cart_create", tracing::collective, 0},
    {"MPI_Cart_sub", tracing::collective, 0},
    {"MPI_Graph_create", tracing::collective, 0},
    {"MPI_Dist_graph_create", tracing::collective, 0},
    {"MPI_Dist_graph_create_adjacent", tracing::collective, 0},
    {"MPI_Intercomm_create", tracing::collective, 0},
    {"MPI_Intercomm_merge", tracing::collective, 0},
};

/// Functions that only ask for what the rank knows. They take less time than a record, and leave
/// none.
inline constexpr char const* untraced_calls[] = {
    "MPI_Wtime",       "MPI_Wtick",         "MPI_Comm_rank",        "MPI_Comm_size",
    "MPI_Initialized", "MPI_Finalized",     "MPI_Get_count",        "MPI_Get_elements",
    "MPI_Type_size",   "MPI_Type_extent",   "MPI_Type_get_extent",  "MPI_Get_address",
    "MPI_Address",     "MPI_Cart_coords",   "MPI_Cart_rank",        "MPI_Cart_shift",
    "MPI_Group_rank",  "MPI_Group_size",    "MPI_Comm_remote_size", "MPI_Comm_test_inter",
    "MPI_Topo_test",   "MPI_Test_cancelled"};

/// Functions of the C library. The numbers of their arguments as above.
struct traced_allocation {
  char const* name;  // without the runtime's prefix
  std::int8_t size = -1;
  std::int8_t count = -1;
  std::int8_t old = -1;     // memory that the call frees
  std::int8_t result = -1;  // where the address is stored; -1: the call returns it
};
inline constexpr traced_allocation traced_allocations[] = {
    {"malloc", 0},
    {"malloc_collective", 0},
    {"calloc", 1, 0},
    {"calloc_collective", 1, 0},
    {"realloc", 1, -1, 0},
    {"free", -1, -1, 0},
    {"aligned_alloc", 1},
    {"memalign", 1},
    {"valloc", 0},
    {"posix_memalign", 2, -1, -1, 0},
    {"strdup"},
    {"strndup"},
};

}  // namespace quarry::compiler
