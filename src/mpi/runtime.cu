// SPDX-License-Identifier: Apache-2.0
// The runtime for the GPU as one unit, which quarry-mpicc links with the program.
#include "array_types.cpp"
#include "attributes.cpp"
#include "buffered_sends.cpp"
#include "c_convert.cpp"
#include "c_ctype.cpp"
#include "c_file_calls.cpp"
#include "c_files.cpp"
#include "c_getopt.cpp"
#include "c_input.cpp"
#include "c_library.cpp"
#include "c_memory.cpp"
#include "c_output.cpp"
#include "c_paths.cpp"
#include "c_random.cpp"
#include "c_stdlib.cpp"
#include "c_string.cpp"
#include "c_system.cpp"
#include "c_time.cpp"
#include "called_collectives.cpp"
#include "cancellation.cpp"
#include "checked_collectives.cpp"
#include "checked_messages.cpp"
#include "checked_objects.cpp"
#include "checked_types.cpp"
#include "checks.cpp"
#include "collectives.cpp"
#include "communicator_meeting.cpp"
#include "communicator_objects.cpp"
#include "communicators.cpp"
#include "compared_malloc.cpp"
#include "context_numbers.cpp"
#include "convert_elements.cpp"
#include "copy_bytes.cpp"
#include "derived_types.cpp"
#include "direct_collectives.cpp"
#include "element_counts.cpp"
#include "environment.cpp"
#include "error_codes.cpp"
#include "error_handlers.cpp"
#include "exchanges.cpp"
#include "external32.cpp"
#include "frame_memory.cpp"
#include "generalized_requests.cpp"
#include "groups.cpp"
#include "host_calls.cpp"
#include "immediate_copies.cpp"
#include "information.cpp"
#include "intercommunicators.cpp"
#include "large_counts.cpp"
#include "lent_buffers.cpp"
#include "long_messages.cpp"
#include "matched_messages.cpp"
#include "meeting.cpp"
#include "message_calls.cpp"
#include "message_parts.cpp"
#include "neighbour_collectives.cpp"
#include "nonblocking_collectives.cpp"
#include "operation_pair.cpp"
#include "outgoing.cpp"
#include "output.cpp"
#include "pack_calls.cpp"
#include "part_collectives.cpp"
#include "persistent_collectives.cpp"
#include "persistent_requests.cpp"
#include "point_to_point.cpp"
#include "progress.cpp"
#include "published_parts.cpp"
#include "rank.cpp"
#include "rank_arrays.cpp"
#include "rank_memory.cpp"
#include "reduction.cpp"
#include "requests.cpp"
#include "root_window.cpp"
#include "schedule.cpp"
#include "schedule_builder.cpp"
#include "schedule_steps.cpp"
#include "scheduled_collective.cpp"
#include "separate_communicators.cpp"
#include "shared_communicators.cpp"
#include "shared_reads.cpp"
#include "signatures.cpp"
#include "signed_messages.cpp"
#include "split_order.cpp"
#include "splitting.cpp"
#include "topologies.cpp"
#include "topology_calls.cpp"
#include "trace.cpp"
#include "type_constructors.cpp"
#include "type_names.cpp"
#include "type_queries.cpp"
#include "types.cpp"
#include "used_bytes.cpp"
#include "zero_divisor.cpp"

#include "clock_mailbox.hpp"

__constant__ quarry::mpi::launch_layout quarry_mpi_layout;
__constant__ quarry::mpi::meeting_place quarry_mpi_meeting_place;
#ifdef QUARRY_MPI_PROCESSES
__constant__ quarry::mpi::process_layout quarry_mpi_processes;

/// Whether this process has a rank with this number. The last thread block may have more threads.
[[nodiscard]] __device__ static inline bool has_rank(std::uint32_t local) {
  return local < the_processes().ranks_each && layout().first_rank + local < layout().size;
}
#else
[[nodiscard]] __device__ static inline bool has_rank(std::uint32_t local) {
  return layout().first_rank + local < layout().size;
}
#endif
__constant__ quarry::mpi::copier_layout quarry_mpi_copiers;
__device__ quarry::mpi::copy_board quarry_mpi_copy_board;

/// Prepares the mailboxes of all GPUs, before any rank runs.
extern "C" __global__ void quarry_mpi_prepare() {
  std::uint32_t const local = blockIdx.x * blockDim.x + threadIdx.x;
  if (!has_rank(local)) return;
  std::uint32_t const rank = layout().first_rank + local;
  mailbox_of(rank).initialise();
  state_of(rank).rank = rank;
}

/// One lane tells the host its GPU's time, until the host has asked `clock_exchanges` times, or
/// asks no more.
extern "C" __global__ void quarry_mpi_tell_time(quarry::mpi::clock_mailbox* mailbox) {
  for (std::uint32_t number = 1; number <= quarry::mpi::clock_exchanges; ++number) {
    std::uint64_t const begin = quarry::simt::clock_ns();
    while (quarry::mpi::load_host(&mailbox->asked) != number)
      if (quarry::simt::clock_ns() - begin > quarry::mpi::longest_clock_wait) return;
    mailbox->time = quarry::simt::clock_ns();
    quarry::mpi::store_host(&mailbox->answered, number);
  }
}

/// Runs the program: one rank for each 2^shift threads. Blocks after those of the ranks copy.
extern "C" __global__ void quarry_mpi_run() {
  clear_block();
  claimed_pieces::initialise();
  warp_helpers::initialise();
  if (copiers::has_block()) {
    if (threadIdx.x == 0) copiers::serve();
    return;
  }
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const shift = quarry_mpi_layout.shift;
  if (!has_rank(local_rank())) return;
  std::uint32_t const lane = thread & ((1u << shift) - 1);
  bool const is_helper = shift == helper_warp_shift ? lane >= 32 : lane != 0;
  if (is_helper && warp_helpers::exist()) warp_helpers::help();
  if (lane != 0) return;
  run_rank(own_rank());
  copiers::leave();
  warp_helpers::dismiss();
}
