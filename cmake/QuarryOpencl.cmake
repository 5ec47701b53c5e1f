# SPDX-License-Identifier: Apache-2.0
# Sets QUARRY_WITH_OPENCL and adds the target quarry::opencl: the heap for OpenCL kernels. It needs CL/opencl.hpp and an ICD loader.

set(QUARRY_WITH_OPENCL OFF)
# Programs include the OpenCL C as C++: quarry_opencl/heap.cl. The installed folder has the same name.
set(quarry_opencl_includes ${PROJECT_BINARY_DIR}/opencl_include)
file(MAKE_DIRECTORY ${quarry_opencl_includes})
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/opencl ${quarry_opencl_includes}/quarry_opencl SYMBOLIC)
# A source includes only sources before it in this list.
set(kernel_sources heap_layout size_classes atomics atomics_c11 atomics_nvidia atomics_other
  orders tree pages spans work_items places subgroup trailer heap published group reserve list vector array_list queue map
  ordered_map graph)
list(TRANSFORM kernel_sources PREPEND ${PROJECT_SOURCE_DIR}/opencl/)
list(TRANSFORM kernel_sources APPEND .cl)
if(NOT QUARRY_OPENCL STREQUAL "OFF")
  find_package(OpenCL QUIET)
  find_path(QUARRY_OPENCL_HPP CL/opencl.hpp)
  if(OpenCL_FOUND AND QUARRY_OPENCL_HPP)
    set(QUARRY_WITH_OPENCL ON)
  elseif(QUARRY_OPENCL STREQUAL "ON")
    message(FATAL_ERROR "QUARRY_OPENCL=ON, but OpenCL's loader or its header CL/opencl.hpp was not found. On Debian, install "
      "ocl-icd-opencl-dev and opencl-clhpp-headers")
  endif()
endif()

if(QUARRY_WITH_OPENCL)
  set(embedded ${PROJECT_BINARY_DIR}/opencl_sources.cpp)
  list(JOIN kernel_sources "," joined)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DSOURCES=${joined} -P ${PROJECT_SOURCE_DIR}/cmake/embed_opencl.cmake
    DEPENDS ${kernel_sources} ${PROJECT_SOURCE_DIR}/cmake/embed_opencl.cmake VERBATIM)
  add_library(quarry_opencl ${quarry_opencl_sources} ${embedded})
  add_library(quarry::opencl ALIAS quarry_opencl)
  set_target_properties(quarry_opencl PROPERTIES UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 5 EXPORT_NAME opencl POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS)
    set_target_properties(quarry_opencl PROPERTIES INSTALL_RPATH "$ORIGIN")  # both libraries are installed into one folder
  endif()
  target_include_directories(quarry_opencl PRIVATE ${PROJECT_SOURCE_DIR}/src
    PUBLIC $<BUILD_INTERFACE:${quarry_opencl_includes}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_include_directories(quarry_opencl SYSTEM PUBLIC $<BUILD_INTERFACE:${QUARRY_OPENCL_HPP}>)
  target_link_libraries(quarry_opencl PUBLIC quarry OpenCL::OpenCL)
  quarry_options(quarry_opencl)
endif()
