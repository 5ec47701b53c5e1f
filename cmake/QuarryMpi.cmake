# SPDX-License-Identifier: Apache-2.0
# GPU MPI: the runtime that MPI programs link, quarry-mpirun, and the compiler quarry-mpicc (compiler/). The runtime needs
# Boost.Context, the compiler needs LLVM and Clang 19. Programs that quarry-mpicc makes need neither.
set(QUARRY_MPI "AUTO" CACHE STRING "Build the runtime of GPU MPI: AUTO (if Boost.Context is installed), ON or OFF")
set(QUARRY_COMPILER "AUTO" CACHE STRING "Build quarry-mpicc, which needs LLVM and Clang 19: AUTO (unless Quarry is a part of another project), ON or OFF")
set(QUARRY_MPI_NVSHMEM "AUTO" CACHE STRING "Build the GPU's runtime for ranks of several processes, with NVSHMEM: AUTO (if it is found), ON or OFF")
set(QUARRY_WITH_COMPILER OFF)
if(QUARRY_MPI STREQUAL "OFF" OR NOT TARGET quarry_fibers OR BUILD_SHARED_LIBS)
  if(QUARRY_MPI STREQUAL "ON" OR QUARRY_COMPILER STREQUAL "ON")
    message(FATAL_ERROR "QUARRY_MPI is ${QUARRY_MPI} and QUARRY_COMPILER is ${QUARRY_COMPILER}, but the runtime of GPU MPI is not built. It "
      "needs QUARRY_MPI=AUTO or ON, Boost.Context (1.74 or later), and BUILD_SHARED_LIBS=OFF.")
  endif()
  return()
endif()

list(TRANSFORM quarry_mpi_sources PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE runtime_sources)
# The runtime alone, for tests; and the launcher, which is the program's `main`.
add_library(quarry_mpi STATIC ${runtime_sources} src/mpi/cpu_world.cpp src/mpi/cpu_threads.cpp src/mpi/checked_arrays.cpp src/mpi/record_allocations.cpp)
target_include_directories(quarry_mpi PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(quarry_mpi PUBLIC quarry quarry_fibers)
quarry_options(quarry_mpi)
set(launch_device src/mpi/launch_no_cuda.cpp)
if(QUARRY_WITH_CUDA)
  set(launch_device src/mpi/block_memory.cpp src/mpi/driver_linker.cpp src/mpi/fault_core.cpp src/mpi/gpu_clocks.cpp src/mpi/gpu_memory.cpp src/mpi/gpu_peers.cpp src/mpi/gpu_program.cpp src/mpi/gpu_watch.cpp
    src/mpi/launch_cuda.cpp src/mpi/spread_memory.cpp)
endif()
add_library(quarry_mpi_launcher STATIC src/mpi/fault_report.cpp src/mpi/launcher.cpp src/mpi/launch_cpu.cpp src/mpi/rank_stacks.cpp src/mpi/signal_watch.cpp src/mpi/trace_file.cpp src/mpi/wrong_addresses.cpp
  ${launch_device})
target_link_libraries(quarry_mpi_launcher PUBLIC quarry_mpi)
quarry_options(quarry_mpi_launcher)
set_target_properties(quarry_mpi quarry_mpi_launcher PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 11)
set_source_files_properties(src/mpi/cpu_world.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # tests define a world of their own
# The same for ranks of several processes, which quarry-mpicc --processes links.
add_library(quarry_mpi_processes STATIC ${runtime_sources} src/mpi/cpu_world.cpp src/mpi/cpu_threads.cpp src/mpi/checked_arrays.cpp src/mpi/process_memory.cpp
  src/mpi/record_allocations.cpp)
target_compile_definitions(quarry_mpi_processes PUBLIC QUARRY_MPI_PROCESSES)
target_include_directories(quarry_mpi_processes PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(quarry_mpi_processes PUBLIC quarry quarry_fibers)
add_library(quarry_mpi_processes_launcher STATIC src/mpi/fault_report.cpp src/mpi/launcher.cpp src/mpi/launch_cpu.cpp src/mpi/process_states.cpp src/mpi/rank_stacks.cpp src/mpi/signal_watch.cpp
  src/mpi/trace_file.cpp src/mpi/wrong_addresses.cpp ${launch_device})
target_link_libraries(quarry_mpi_processes_launcher PUBLIC quarry_mpi_processes)
# NVSHMEM connects processes that have GPUs. Programs load its host library when they start.
set(QUARRY_WITH_NVSHMEM OFF)
if(QUARRY_WITH_CUDA AND NOT QUARRY_MPI_NVSHMEM STREQUAL "OFF")
  find_path(QUARRY_NVSHMEM_HEADERS nvshmem.h HINTS ${PROJECT_SOURCE_DIR}/build/nvshmem/nvidia/nvshmem/include DOC "NVSHMEM's headers")
  find_library(QUARRY_NVSHMEM_DEVICE nvshmem_device HINTS ${QUARRY_NVSHMEM_HEADERS}/../lib DOC "NVSHMEM's device library, libnvshmem_device.a")
  if(QUARRY_NVSHMEM_HEADERS AND QUARRY_NVSHMEM_DEVICE)
    set(QUARRY_WITH_NVSHMEM ON)
  elseif(QUARRY_MPI_NVSHMEM STREQUAL "ON")
    message(FATAL_ERROR "QUARRY_MPI_NVSHMEM=ON, but NVSHMEM was not found. Run scripts/setup.sh nvshmem, or set QUARRY_NVSHMEM_HEADERS and QUARRY_NVSHMEM_DEVICE.")
  endif()
endif()
if(QUARRY_WITH_CUDA)
  target_sources(quarry_mpi_processes_launcher PRIVATE src/mpi/nvshmem_memory.cpp)
  set_source_files_properties(src/mpi/nvshmem_memory.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # NVSHMEM's headers
endif()
if(QUARRY_WITH_NVSHMEM)
  target_compile_definitions(quarry_mpi_processes_launcher PRIVATE QUARRY_WITH_NVSHMEM)
  target_include_directories(quarry_mpi_processes_launcher SYSTEM PRIVATE ${QUARRY_NVSHMEM_HEADERS})
endif()
foreach(library quarry_mpi_processes quarry_mpi_processes_launcher)
  quarry_options(${library})
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 11)
  if(QUARRY_TEST_OPTIONS AND QUARRY_SANITIZE STREQUAL "")  # only tests of several processes run it
    target_compile_options(${library} PRIVATE -O0)
  endif()
endforeach()
set(mpi_folder ${PROJECT_BINARY_DIR}/mpi)
add_executable(quarry-mpirun src/mpi/mpirun.cpp src/mpi/process_group.cpp src/mpi/tuning.cpp)
target_include_directories(quarry-mpirun PRIVATE ${PROJECT_SOURCE_DIR}/include)
set_target_properties(quarry-mpirun PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${mpi_folder})
quarry_options(quarry-mpirun)

# The runtime for the GPU: nvcc translates it once, ptxas once for each limit of registers, and again for several GPUs, whose atomic
# operations have system scope.
set(quarry_mpi_cubins "")
set(quarry_mpi_system_cubins "")
set(quarry_mpi_registers 32 64 128 255)
if(QUARRY_WITH_CUDA)
  set(ptx ${mpi_folder}/runtime.ptx)
  file(GLOB runtime_headers CONFIGURE_DEPENDS src/mpi/*.hpp src/mpi/*.cuh include/quarry/device/*.hpp include/quarry/device/detail/*.hpp include/quarry/simt/*.hpp include/quarry/core/*.hpp)
  file(MAKE_DIRECTORY ${mpi_folder})
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${CMAKE_CUDA_COMPILER} -arch=sm_${QUARRY_ARCHITECTURES} -rdc=true -ptx -std=c++20 -O3 --expt-relaxed-constexpr
      -diag-suppress 20012,20040,20050 -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/src/mpi/runtime.cu -o ${ptx}
    DEPENDS src/mpi/runtime.cu ${runtime_sources} ${runtime_headers} VERBATIM)
  set(system_ptx ${mpi_folder}/runtime_system.ptx)
  add_executable(quarry-widen-scope src/mpi/widen_scope.cpp)
  target_include_directories(quarry-widen-scope PRIVATE ${PROJECT_SOURCE_DIR}/include)
  quarry_options(quarry-widen-scope)
  add_custom_command(OUTPUT ${system_ptx}
    COMMAND quarry-widen-scope ${ptx} ${system_ptx}
    DEPENDS ${ptx} VERBATIM)
  function(quarry_assemble source registers cubin)
    add_custom_command(OUTPUT ${cubin}
      COMMAND ${CUDAToolkit_BIN_DIR}/ptxas -c -arch=sm_${QUARRY_ARCHITECTURES} -maxrregcount=${registers} ${source} -o ${cubin}
      DEPENDS ${source} VERBATIM)
  endfunction()
  foreach(registers ${quarry_mpi_registers})
    quarry_assemble(${ptx} ${registers} ${mpi_folder}/runtime${registers}.cubin)
    quarry_assemble(${system_ptx} ${registers} ${mpi_folder}/runtime_system${registers}.cubin)
    list(APPEND quarry_mpi_cubins ${mpi_folder}/runtime${registers}.cubin)
    list(APPEND quarry_mpi_system_cubins ${mpi_folder}/runtime_system${registers}.cubin)
  endforeach()
  add_custom_command(OUTPUT ${mpi_folder}/runtime.types
    COMMAND ${CMAKE_COMMAND} -D PTX=${ptx} -D OUTPUT=${mpi_folder}/runtime.types -P ${PROJECT_SOURCE_DIR}/cmake/QuarryMpiTypes.cmake
    DEPENDS ${ptx} cmake/QuarryMpiTypes.cmake VERBATIM)
  # For ranks of several processes: with the system's scope, and with the functions that call NVSHMEM.
  set(quarry_mpi_processes_cubins "")
  if(QUARRY_WITH_NVSHMEM)
    set(processes_ptx ${mpi_folder}/runtime_processes.ptx)
    add_custom_command(OUTPUT ${processes_ptx}
      COMMAND ${CMAKE_CUDA_COMPILER} -DQUARRY_MPI_PROCESSES -arch=sm_${QUARRY_ARCHITECTURES} -rdc=true -ptx -std=c++20 -O3 --expt-relaxed-constexpr
        -diag-suppress 20012,20040,20050 -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
        ${PROJECT_SOURCE_DIR}/src/mpi/runtime.cu -o ${processes_ptx}.narrow
      COMMAND quarry-widen-scope ${processes_ptx}.narrow ${processes_ptx}
      DEPENDS src/mpi/runtime.cu ${runtime_sources} ${runtime_headers} VERBATIM)
    foreach(registers ${quarry_mpi_registers})
      quarry_assemble(${processes_ptx} ${registers} ${mpi_folder}/runtime_processes${registers}.cubin)
      set(transport ${mpi_folder}/transport${registers}.cubin)
      add_custom_command(OUTPUT ${transport}
        COMMAND ${CMAKE_CUDA_COMPILER} -arch=sm_${QUARRY_ARCHITECTURES} -rdc=true -cubin -maxrregcount=${registers} -std=c++20 -O3 -I ${QUARRY_NVSHMEM_HEADERS}
          ${PROJECT_SOURCE_DIR}/src/mpi/nvshmem_transport.cu -o ${transport}
        DEPENDS src/mpi/nvshmem_transport.cu VERBATIM)
      list(APPEND quarry_mpi_processes_cubins ${mpi_folder}/runtime_processes${registers}.cubin ${transport})
    endforeach()
  endif()
  add_custom_target(quarry_mpi_gpu_runtime DEPENDS ${quarry_mpi_cubins} ${quarry_mpi_system_cubins} ${quarry_mpi_processes_cubins} ${mpi_folder}/runtime.types)
  # For make test: nvcc checks the runtime, and ptxas its inline assembly. Both optimise nothing, which takes an eighth of the time.
  set(check ${mpi_folder}/check)
  add_custom_command(OUTPUT ${check}.cubin
    COMMAND ${CMAKE_CUDA_COMPILER} -arch=sm_${QUARRY_ARCHITECTURES} -rdc=true -ptx -std=c++20 -Xcicc -O0 --expt-relaxed-constexpr
      -diag-suppress 20012,20040,20050 -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/src/mpi/runtime.cu -o ${check}.ptx
    COMMAND quarry-widen-scope ${check}.ptx ${check}_system.ptx
    COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/mpi/inline_assembly.py ${check}_system.ptx ${check}_assembly.ptx
    COMMAND ${CUDAToolkit_BIN_DIR}/ptxas -c -arch=sm_${QUARRY_ARCHITECTURES} -O0 ${check}_assembly.ptx -o ${check}.cubin
    DEPENDS src/mpi/runtime.cu ${runtime_sources} ${runtime_headers} tests/mpi/inline_assembly.py VERBATIM)
  add_custom_target(quarry_mpi_gpu_check DEPENDS ${check}.cubin)
endif()

set(wants_compiler ${QUARRY_COMPILER})
if(QUARRY_COMPILER STREQUAL "AUTO")
  set(wants_compiler ${PROJECT_IS_TOP_LEVEL})
endif()
if(wants_compiler AND QUARRY_SANITIZE STREQUAL "")
  find_package(LLVM 19.1 QUIET CONFIG PATHS /usr/lib/llvm-19/lib/cmake/llvm)
  find_program(QUARRY_CLANG NAMES clang-19 DOC "Clang 19, which quarry-mpicc runs")
  if(LLVM_FOUND AND QUARRY_CLANG)
    set(QUARRY_WITH_COMPILER ON)
    add_subdirectory(compiler)
  elseif(QUARRY_COMPILER STREQUAL "ON")
    message(FATAL_ERROR "QUARRY_COMPILER=ON, but LLVM 19 or Clang 19 was not found. On Debian, install llvm-19-dev and clang-19.")
  endif()
endif()
# Programs of quarry-mpicc link the launcher, and quarry-mpirun starts them. Without the compiler nothing needs these.
if(NOT QUARRY_WITH_COMPILER)
  set_target_properties(quarry_mpi_launcher quarry_mpi_processes quarry_mpi_processes_launcher quarry-mpirun PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
