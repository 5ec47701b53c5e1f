# SPDX-License-Identifier: Apache-2.0
# Builds and runs users' programs in each way in which they can use Quarry: installed, by find_package and by plain nvcc; and as a
# part of their own build, by add_subdirectory. The shared libraries have the options of the build tree, and their folder lies beside
# it, so ccache has their objects.
# usage: cmake -D QUARRY_BUILD=<build tree> -P run.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT EXISTS "${QUARRY_BUILD}/CMakeCache.txt")
  message(FATAL_ERROR "QUARRY_BUILD='${QUARRY_BUILD}' is not a build tree of CMake")
endif()

set(stage "${QUARRY_BUILD}/tests/install/stage")
set(shared "${QUARRY_BUILD}-shared")
file(REMOVE_RECURSE "${stage}" "${shared}")

# Builds the user's project with Quarry's settings: a sanitized library does not link into a plain program. Optimises nothing, because
# no program here runs for long.
set(inherited CMAKE_MAKE_PROGRAM CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER CMAKE_CXX_COMPILER CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE
  CMAKE_Fortran_COMPILER CMAKE_CUDA_COMPILER QUARRY_CUDA QUARRY_SANITIZE QUARRY_HARDENED QUARRY_CCCL_INCLUDE QUARRY_UNITY)
load_cache("${QUARRY_BUILD}" READ_WITH_PREFIX built_ CMAKE_GENERATOR CMAKE_HOME_DIRECTORY CMAKE_PROJECT_VERSION QUARRY_ARCHITECTURES
  CMAKE_CXX_FLAGS_RELEASE CMAKE_CXX_FLAGS_RELWITHDEBINFO QUARRY_WERROR QUARRY_OPENCL ${inherited})

function(run step)
  message(STATUS "${step}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${step}: status ${status}\n${output}")
  endif()
endfunction()

set(settings "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0")
foreach(name ${inherited})
  if(built_${name})
    list(APPEND settings "-D${name}=${built_${name}}")
  endif()
endforeach()
set(fortran_programs "")
if(built_CMAKE_Fortran_COMPILER AND NOT built_QUARRY_SANITIZE)
  set(fortran_programs quarry_user_fortran)
  list(APPEND settings -DUSER_HAS_FORTRAN=ON)
endif()
# OpenCL's compilers leak, so no sanitizers.
set(has_opencl OFF)
if(EXISTS "${QUARRY_BUILD}/opencl_sources.cpp" AND NOT built_QUARRY_SANITIZE)
  set(has_opencl ON)
  list(APPEND settings -DUSER_HAS_OPENCL=ON)
endif()
set(has_cuda OFF)
if(built_CMAKE_CUDA_COMPILER AND NOT built_QUARRY_CUDA STREQUAL "OFF")
  set(has_cuda ON)
  list(GET built_QUARRY_ARCHITECTURES 0 architecture)  # one architecture is enough
  list(APPEND settings -DUSER_HAS_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=${architecture}")
endif()

# use(<way> <settings>...): configures, builds and runs the user's project.
function(use way)
  run("${way}: configuring" ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${stage}/${way}"
    -G "${built_CMAKE_GENERATOR}" ${settings} ${ARGN} --no-warn-unused-cli)
  run("${way}: building" ${CMAKE_COMMAND} --build "${stage}/${way}" --config "${built_CMAKE_BUILD_TYPE}")
  run("${way}: running" "${stage}/${way}/quarry_user")
  foreach(program ${fortran_programs})
    run("${way}: ${program}" "${stage}/${way}/${program}")
    if(EXISTS "${stage}/${way}/${program}_sources")
      run("${way}: ${program}_sources" "${stage}/${way}/${program}_sources")
    endif()
  endforeach()
  foreach(program load_plugins load_plugins_too)
    run("${way}: ${program}" "${stage}/${way}/${program}"
      "${stage}/${way}/libplugin_one.so" "${stage}/${way}/libplugin_two.so")
  endforeach()
  if(has_opencl)
    run("${way}: running the OpenCL program" "${stage}/${way}/quarry_user_opencl")
    run("${way}: running the OpenCL program in C" "${stage}/${way}/quarry_user_opencl_c")
  endif()
  if(has_cuda)
    run("${way}: running the CUDA program" "${stage}/${way}/quarry_kernel")
  endif()
endfunction()

run("installing ${QUARRY_BUILD}" ${CMAKE_COMMAND} --install "${QUARRY_BUILD}" --prefix "${stage}/prefix")
use(find_package "-DCMAKE_PREFIX_PATH=${stage}/prefix" -DUSER_HAS_UMBRELLAS=ON)
# An installation of quarry-mpicc can be moved.
if(EXISTS "${stage}/prefix/bin/quarry-mpicc")
  file(RENAME "${stage}/prefix" "${stage}/moved")
  file(WRITE "${stage}/program.c" "#include <mpi.h>\nint main(int argc, char **argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }\n")
  run("quarry-mpicc" "${stage}/moved/bin/quarry-mpicc" "${stage}/program.c" -o "${stage}/mpi_program")
  run("quarry-mpirun" ${CMAKE_COMMAND} -E env QUARRY_MPI_DEVICE=cpu "${stage}/moved/bin/quarry-mpirun" -n 2 "${stage}/mpi_program")
  file(RENAME "${stage}/moved" "${stage}/prefix")
endif()
use(add_subdirectory -DBUILD_SHARED_LIBS=ON "-DUSER_QUARRY_SOURCE=${built_CMAKE_HOME_DIRECTORY}")

# The command that README.md shows.
if(has_cuda)
  file(STRINGS "${built_CMAKE_HOME_DIRECTORY}/README.md" shown REGEX "^nvcc .* -lquarry")
  list(LENGTH shown count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "README.md shows ${count} commands 'nvcc ... -lquarry'; expected 1")
  endif()
  string(REPLACE "~/quarry" "'${stage}/prefix'" command "${shown}")
  string(REPLACE " program.cu" " '${CMAKE_CURRENT_LIST_DIR}/kernel.cu'" command "${command}")
  string(REGEX REPLACE "^nvcc" "'${built_CMAKE_CUDA_COMPILER}'" command "${command}")
  string(REGEX REPLACE "-o program$" "-o '${stage}/program'" command "${command}")
  run("plain nvcc: building" sh -c "${command}")
  run("plain nvcc: running" "${stage}/program")
endif()

# The shared libraries: first in their build tree, then installed in place of the static ones, so that users' programs compile equally.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name CMAKE_CXX_FLAGS_RELEASE CMAKE_CXX_FLAGS_RELWITHDEBINFO QUARRY_WERROR QUARRY_OPENCL)
  list(APPEND shared_settings "-D${name}=${built_${name}}")
endforeach()
run("shared: configuring" ${CMAKE_COMMAND} -S "${built_CMAKE_HOME_DIRECTORY}" -B "${shared}" -G "${built_CMAKE_GENERATOR}" ${settings}
  ${shared_settings} -DBUILD_SHARED_LIBS=ON -DQUARRY_TESTS=OFF -DQUARRY_BENCH=OFF -DQUARRY_EXAMPLES=OFF --no-warn-unused-cli)
run("shared: building" ${CMAKE_COMMAND} --build "${shared}" --config "${built_CMAKE_BUILD_TYPE}")
run("shared: checking its exports" ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/exports.py" "${shared}/libquarry.so"
  "${shared}/CMakeFiles/quarry.dir" "${built_CMAKE_HOME_DIRECTORY}/include")
if(has_opencl)
  run("shared: checking the exports of quarry::opencl" ${Python3_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/exports.py"
    "${shared}/libquarry_opencl.so" "${shared}/CMakeFiles/quarry_opencl.dir" "${built_CMAKE_HOME_DIRECTORY}/include")
endif()
file(REMOVE_RECURSE "${stage}/prefix")
run("shared: installing" ${CMAKE_COMMAND} --install "${shared}" --prefix "${stage}/prefix")
file(GLOB installed "${stage}/prefix/*/libquarry.so.${built_CMAKE_PROJECT_VERSION}")
if(NOT installed)
  message(FATAL_ERROR "no libquarry.so.${built_CMAKE_PROJECT_VERSION} was installed in ${stage}/prefix")
endif()
set(has_cuda OFF)
use(find_package_shared "-DCMAKE_PREFIX_PATH=${stage}/prefix" -DUSER_HAS_CUDA=OFF)
file(REMOVE_RECURSE "${stage}" "${shared}")
