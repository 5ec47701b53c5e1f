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

# quarry_add_tests(<program> <library> [SHARDS <n>] [TIMEOUT <seconds>] SOURCES <paths>...): a program of gtest's cases.
# ctest runs it as <program>.1 to <program>.<n>, each with its share of the cases; each says in test-results/<name>.xml what became of
# them (scripts/count_tests.py). With QUARRY_UNITY, several sources are compiled at once, as most of what they include is the same.
function(quarry_add_tests program library)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SHARDS;TIMEOUT" "SOURCES")
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  add_executable(${program} ${arg_SOURCES})
  set_target_properties(${program} PROPERTIES UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(${program} PRIVATE ${library} quarry_fibers GTest::gtest_main)
  quarry_options(${program})
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(index RANGE ${last})
    math(EXPR number "${index} + 1")
    set(name ${program}.${number})
    add_test(NAME ${name} COMMAND ${program} --gtest_output=xml:${PROJECT_BINARY_DIR}/test-results/${name}.xml)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST 10
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
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
