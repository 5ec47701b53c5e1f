# SPDX-License-Identifier: Apache-2.0
# Warnings and sanitizers for a target, and one-line declarations of tests and programs.

function(quarry_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow>
    $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda -Xcompiler=-Wall,-Wextra
      --diag-error=20011,20014
      $<$<VERSION_GREATER_EQUAL:${CMAKE_CUDA_COMPILER_VERSION},12.8>:--compress-mode=size>>)
  if(QUARRY_SANITIZE)
    target_compile_options(${target} PUBLIC
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${QUARRY_SANITIZE} -fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC -fsanitize=${QUARRY_SANITIZE})
  endif()
endfunction()

# quarry_add_test(<path under tests/, without _test.cpp> [<name> <library>]): one program, each of whose tests ctest knows. Its
# name is the path's, and it links quarry, unless told otherwise.
function(quarry_add_test path)
  if(ARGC GREATER 1)
    set(name ${ARGV1})
    set(library ${ARGV2})
  else()
    string(REPLACE "/" "." name ${path})
    set(library quarry)
  endif()
  add_executable(${name}_test ${path}_test.cpp)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/examples)
  target_link_libraries(${name}_test PRIVATE ${library} GTest::gtest_main)
  quarry_options(${name}_test)
  set(timeout 600)
  if(path MATCHES "^model/")  # all schedules, under sanitizers too
    set(timeout 1800)
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${timeout})
endfunction()

# quarry_add_program(<name> <sources...>): compiled by nvcc where there is one, by the C++ compiler otherwise.
function(quarry_add_program name)
  quarry_add_program_over(quarry ${name} ${ARGN})
endfunction()

# quarry_add_program_over(<library> <name> <sources...>): the same with another build of the library.
function(quarry_add_program_over library name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/bench ${CMAKE_SOURCE_DIR}/examples)
  target_link_libraries(${name} PRIVATE ${library})
  quarry_options(${name})
  if(QUARRY_WITH_CUDA)
    foreach(source ${ARGN})
      if(source MATCHES "\\.cpp$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CUDA)
      endif()
    endforeach()
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    add_dependencies(gpu_programs ${name})
  endif()
endfunction()

# quarry_use_rmm(<target>): it includes and links RMM (QUARRY_RMM).
function(quarry_use_rmm target)
  find_package(CUDAToolkit REQUIRED)
  foreach(folder ${QUARRY_RMM})
    target_include_directories(${target} SYSTEM BEFORE PRIVATE ${folder}/include ${folder}/include/rapids)  # RMM brings its CCCL
    target_link_directories(${target} PRIVATE ${folder}/lib64)
    set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH ${folder}/lib64)
  endforeach()
  set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH "$ORIGIN")  # on another machine they lie beside it
  target_link_libraries(${target} PRIVATE rmm rapids_logger CUDA::cudart_static)
endfunction()
