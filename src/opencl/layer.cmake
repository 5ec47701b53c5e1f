# SPDX-License-Identifier: Apache-2.0
# The heap for OpenCL kernels. Its OpenCL C is in opencl/, and also compiles as C++.
quarry_layer(opencl
  USES core platform simt device host trace
  SOURCES c_api.cpp c_containers.cpp heap.cpp heap_plan.cpp heap_audit.cpp program.cpp file_cache.cpp csr.cpp
  TESTS opencl/heap_test.cpp opencl/heap_usage_test.cpp opencl/live_allocation_test.cpp opencl/debug_heap_test.cpp opencl/containers_test.cpp
    opencl/container_failures_test.cpp opencl/csr_test.cpp opencl/reserve_test.cpp opencl/on_host_test.cpp opencl/two_heaps_test.cpp
    opencl/growing_heap_test.cpp opencl/file_cache_test.cpp
  MUTANTS opencl/orders.cl)
