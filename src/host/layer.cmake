# SPDX-License-Identifier: Apache-2.0
# Pools and resources for the host's programs, the registry of their allocations, and the C API.
quarry_layer(host
  USES core platform
  SOURCES allocator_description.cpp heuristic_names.cpp allocators.cpp any_allocator.cpp c_allocators.cpp c_api.cpp c_extension.cpp c_handles.cpp
    c_segments.cpp c_streams.cpp pools/fence_all_threads.cpp pools/plan.cpp pools/plan_file.cpp pools/routing.cpp registry/held_at_fork.cpp
    registry/operations.cpp registry/page_map.cpp registry/process_layout.cpp registry/process_lists.cpp registry/registry.cpp registry/type_stable_memory.cpp
    resources/allocation_log.cpp resources/file_resource.cpp resources/numa_resource.cpp resources/shared_resource.cpp
  CUDA cuda_operations.cpp pools/cuda_async_pool.cpp pools/cuda_stream_pool.cpp pools/cuda_streams.cpp resources/cuda_resources.cpp
    resources/sam_headroom_resource.cpp
  NO_CUDA no_cuda.cpp
  TESTS *_test.cpp host/*_test.cpp host/*/*_test.cpp
  GPU host/c_api_test.cpp host/*/advised_resource_test.cpp host/*/callback_resource_test.cpp host/cuda_*_test.cpp host/*/cuda_*_test.cpp
    host/*/thrust_*_test.cpp
  FUZZ c_api pool)
