# SPDX-License-Identifier: Apache-2.0
# GPU MPI: what its ranks call. CMake's part for the launcher and the compiler is cmake/QuarryMpi.cmake.
quarry_layer(mpi
  USES core platform simt device host trace
  SOURCES array_types.cpp attributes.cpp buffered_sends.cpp called_collectives.cpp c_convert.cpp c_ctype.cpp c_file_calls.cpp c_files.cpp c_getopt.cpp
    c_input.cpp c_library.cpp c_memory.cpp c_output.cpp c_paths.cpp c_random.cpp c_stdlib.cpp c_string.cpp c_system.cpp c_time.cpp cancellation.cpp
    checked_collectives.cpp checked_messages.cpp checked_objects.cpp checked_types.cpp checks.cpp collectives.cpp communicator_meeting.cpp communicator_objects.cpp
    communicators.cpp compared_malloc.cpp context_numbers.cpp convert_elements.cpp copy_bytes.cpp derived_types.cpp direct_collectives.cpp element_counts.cpp environment.cpp
    error_codes.cpp error_handlers.cpp exchanges.cpp external32.cpp frame_memory.cpp generalized_requests.cpp groups.cpp host_calls.cpp host_files.cpp
    immediate_copies.cpp information.cpp intercommunicators.cpp large_counts.cpp lent_buffers.cpp long_messages.cpp matched_messages.cpp meeting.cpp message_calls.cpp message_parts.cpp
    neighbour_collectives.cpp nonblocking_collectives.cpp operation_pair.cpp outgoing.cpp output.cpp pack_calls.cpp part_collectives.cpp
    persistent_collectives.cpp persistent_requests.cpp point_to_point.cpp progress.cpp published_parts.cpp rank.cpp rank_arrays.cpp rank_memory.cpp
    reduction.cpp requests.cpp root_window.cpp schedule.cpp schedule_builder.cpp schedule_steps.cpp scheduled_collective.cpp shared_reads.cpp signatures.cpp signed_messages.cpp
    separate_communicators.cpp shared_communicators.cpp split_order.cpp splitting.cpp topologies.cpp
    topology_calls.cpp trace.cpp type_constructors.cpp type_names.cpp type_queries.cpp types.cpp used_bytes.cpp wait_graph.cpp zero_divisor.cpp
  TESTS mpi/*_test.cpp
  MUTANTS src/mpi/orders.hpp src/mpi/meeting_orders.hpp)
