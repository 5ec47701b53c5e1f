# SPDX-License-Identifier: Apache-2.0
# CMake 3.25 does not know that nvcc supports C++20. It rejects CUDA sources of a target with CXX_STANDARD 20, or ignores the standard.
# Later versions of CMake set these variables themselves.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
