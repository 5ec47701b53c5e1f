# SPDX-License-Identifier: Apache-2.0
# The heap for kernels, its containers, and allocation for the lanes of a warp (coalescing).
quarry_layer(device
  USES core platform simt
  SOURCES clock_alignment.cpp heap.cpp heap_audit.cpp kernel_memory.cpp memory_cpu.cpp recorded_heap.cpp replace_malloc.cpp
  CUDA memory_cuda.cpp
  NO_CUDA memory_no_cuda.cpp
  TESTS device/*_test.cpp stress/*_test.cpp
  GPU device/*_test.cpp device/coalescing/*_test.cpp stress/heap_limits_test.cpp stress/heap_storm_test.cpp stress/two_heaps_test.cpp
  MUTANTS include/quarry/device/detail/orders.hpp
  MUTANT_TESTS device/slice_bitmap_test.cpp device/coalescing/lane_array_test.cpp device/block_test.cpp device/segment_table_test.cpp
    device/coalescing/superblock_test.cpp device/coalescing/superblock_map_test.cpp device/coalescing/dynamic_coalescing_test.cpp
    stress/heap_stress_test.cpp)
