# SPDX-License-Identifier: Apache-2.0
# Finds CUDA, if QUARRY_CUDA is not OFF and a CUDA compiler is installed. Finds CCCL's headers, if they are installed.
set(QUARRY_WITH_CUDA OFF)
include(QuarryCudaStandard)
if(NOT PROJECT_IS_TOP_LEVEL)  # for the targets of a project that adds Quarry with add_subdirectory
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "${CMAKE_CUDA20_STANDARD_COMPILE_OPTION}" PARENT_SCOPE)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "${CMAKE_CUDA20_EXTENSION_COMPILE_OPTION}" PARENT_SCOPE)
endif()
if(NOT QUARRY_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${QUARRY_ARCHITECTURES})
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(QUARRY_WITH_CUDA ON)
  elseif(QUARRY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "QUARRY_CUDA=ON, but no CUDA compiler was found. Put nvcc on PATH or set CUDACXX.")
  endif()
endif()

find_package(CUDAToolkit QUIET)
find_path(QUARRY_CCCL_INCLUDE cuda/memory_resource
  HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include
  PATH_SUFFIXES cccl . include/cccl include
  DOC "The folder that contains cuda/memory_resource of NVIDIA's CCCL; only quarry/host/interop/cuda_memory_resource.cuh needs it")

if(QUARRY_WITH_CUDA)
  message(STATUS "Quarry: builds for CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}, and for the CPU")
elseif(QUARRY_CUDA STREQUAL "OFF")
  message(STATUS "Quarry: builds for the CPU only (QUARRY_CUDA=OFF)")
else()
  message(STATUS "Quarry: builds for the CPU only (no CUDA compiler was found)")
endif()
