# SPDX-License-Identifier: Apache-2.0
# Installs a build tree into a prefix of its own, and builds and runs a user's project against that.
# usage: cmake -D QUARRY_BUILD=<build tree> -P run.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT EXISTS "${QUARRY_BUILD}/CMakeCache.txt")
  message(FATAL_ERROR "QUARRY_BUILD='${QUARRY_BUILD}' is no build tree of CMake")
endif()

set(stage "${QUARRY_BUILD}/tests/install/stage")
file(REMOVE_RECURSE "${stage}")

# As Quarry was built, so is its user: a sanitized library does not link into a plain program.
set(inherited CMAKE_MAKE_PROGRAM CMAKE_CXX_COMPILER CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE
  CMAKE_CUDA_COMPILER QUARRY_CCCL_INCLUDE)
load_cache("${QUARRY_BUILD}" READ_WITH_PREFIX built_ CMAKE_GENERATOR ${inherited})

function(run what)
  message(STATUS "${what}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what}: status ${status}\n${output}")
  endif()
endfunction()

set(settings "")
foreach(name ${inherited})
  if(built_${name})
    list(APPEND settings "-D${name}=${built_${name}}")
  endif()
endforeach()

run("installing ${QUARRY_BUILD}" ${CMAKE_COMMAND} --install "${QUARRY_BUILD}" --prefix "${stage}/prefix")
run("configuring a user's project" ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${stage}/build"
  -G "${built_CMAKE_GENERATOR}" "-DCMAKE_PREFIX_PATH=${stage}/prefix" ${settings} --no-warn-unused-cli)
run("building it" ${CMAKE_COMMAND} --build "${stage}/build" --config "${built_CMAKE_BUILD_TYPE}")
run("running it" "${stage}/build/quarry_user")
file(REMOVE_RECURSE "${stage}")
