# SPDX-License-Identifier: Apache-2.0
# Pages and memory of the operating system and of CUDA's driver.
quarry_layer(platform
  USES core
  SOURCES host_address_space.cpp host_pages.cpp
  CUDA cuda_address_space.cpp cuda_calls.cpp cuda_pages.cpp
  NO_CUDA no_cuda_pages.cpp
  TESTS platform/*_test.cpp
  GPU platform/cuda_*_test.cpp)
