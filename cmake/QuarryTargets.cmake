# SPDX-License-Identifier: Apache-2.0
# Warnings and sanitizers for a target, and one-line declarations of tests and programs.

function(quarry_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wall -Wextra -Wno-deprecated-declarations -Wno-for-loop-analysis -Wno-string-plus-int -Wno-unused-private-field>
    $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda -Xcompiler=-Wall,-Wextra
      --diag-error=20011,20014
      $<$<VERSION_GREATER_EQUAL:${CMAKE_CUDA_COMPILER_VERSION},12.8>:--compress-mode=size>>)
  if(QUARRY_UNITY)  # GCC collects garbage only above 1 GB: a tenth less time, and a quarter more memory
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
  endif()
  if(QUARRY_WERROR)  # nvcc's host compiler warns about code that nvcc makes: not for CUDA sources
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  endif()
  if(QUARRY_SANITIZE)
    target_compile_options(${target} PUBLIC
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${QUARRY_SANITIZE} -fno-omit-frame-pointer>)
    if(QUARRY_NO_SANITIZE)  # after -fsanitize: Clang ignores it before
      target_compile_options(${target} PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=${QUARRY_NO_SANITIZE}>)
    endif()
    if(QUARRY_SANITIZE MATCHES "address")
      # GCC defines the macro, and has no stacks in the heap by default. With them, tests whose threads spin took more than ten times
      # as long.
      target_compile_definitions(${target} PUBLIC $<$<COMPILE_LANG_AND_ID:CXX,Clang>:__SANITIZE_ADDRESS__=1>)
      target_compile_options(${target} PUBLIC $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsanitize-address-use-after-return=never>)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${QUARRY_SANITIZE})
  endif()
endfunction()

# quarry_count_for_fuzzing(<library>): libFuzzer sees which code of the library an input reaches. Programs without libFuzzer link with
# the library, too: the sanitizers' run-time libraries have the functions, and theirs do nothing.
function(quarry_count_for_fuzzing library)
  if(QUARRY_LIBFUZZER)
    target_compile_options(${library} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# quarry_add_tests(<program> <library> [SHARDS <n>] [TIMEOUT <seconds>] SOURCES <paths>...): adds a program of gtest cases.
# ctest runs the program as <program>.1 to <program>.<n>, each with its share of the cases. Each run writes its results to
# test-results/<name>.xml (scripts/count_tests.py). With QUARRY_UNITY, CMake compiles several sources at once, because they include
# mostly the same headers.
function(quarry_add_tests program library)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SHARDS;TIMEOUT" "SOURCES")
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  add_executable(${program} ${arg_SOURCES})
  set(batch 40)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # a fifth less time for three units in one; GCC's time is the same
    set(batch 200)
  endif()
  set_target_properties(${program} PROPERTIES UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(${program} PRIVATE ${library} quarry_fibers GTest::gtest_main)
  target_compile_options(${program} PRIVATE ${QUARRY_TEST_OPTIONS})
  if(QUARRY_SANITIZE MATCHES "thread" AND NOT QUARRY_EVERY_TEST)  # else templates compile for tests of one thread
    target_compile_definitions(${program} PRIVATE QUARRY_ONLY_TESTS_OF_THREADS)
  elseif(QUARRY_SANITIZE AND NOT QUARRY_EVERY_TEST)  # `dev` has the other back ends, and `hardened` of `make test-long`
    target_compile_definitions(${program} PRIVATE QUARRY_ONLY_FIBERS)
  endif()
  quarry_options(${program})
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(index RANGE ${last})
    math(EXPR number "${index} + 1")
    set(name ${program}.${number})
    add_test(NAME ${name} COMMAND ${program} --gtest_output=xml:${PROJECT_BINARY_DIR}/test-results/${name}.xml)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST 10
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index};GTEST_FILTER=${quarry_test_filter}")
  endforeach()
endfunction()

# quarry_add_program(<name> <sources...>): adds a program. nvcc compiles it if nvcc is installed, else the C++ compiler.
function(quarry_add_program name)
  quarry_add_program_over(quarry ${name} ${ARGN})
endfunction()

# quarry_add_program_over(<library> <name> <sources...>): the same, linked with another build of the library.
function(quarry_add_program_over library name)
  add_executable(${name} ${ARGN})
  quarry_program_options(${library} ${name} ${ARGN})
  if(QUARRY_WITH_CUDA)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    add_dependencies(gpu_programs ${name})
  endif()
endfunction()

# quarry_add_checked_program(<library> <name> <source>): the same. With QUARRY_GPU_TESTS_AS_PTX, nvcc only checks the source and translates
# its kernels to PTX, without optimisation: a fifth to a quarter of the time.
function(quarry_add_checked_program library name source)
  if(NOT QUARRY_GPU_TESTS_AS_PTX)
    quarry_add_program_over(${library} ${name} ${source})
    return()
  endif()
  add_library(${name} OBJECT ${source})
  quarry_program_options(${library} ${name} ${source})
  quarry_compile_as_ptx(${name})
endfunction()

# quarry_program_options(<library> <name> <sources...>): what a program and its check have in common.
function(quarry_program_options library name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(${name} PRIVATE ${library})
  quarry_options(${name})
  if(QUARRY_WITH_CUDA)
    foreach(source ${ARGN})
      if(source MATCHES "\\.cpp$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CUDA)
      endif()
    endforeach()
  endif()
endfunction()

# quarry_compile_as_ptx(<library>): an object library is PTX for the first architecture. Its sources are read for the GPU alone.
function(quarry_compile_as_ptx library)
  list(GET QUARRY_ARCHITECTURES 0 architecture)
  string(REGEX MATCH "^[0-9]+" architecture "${architecture}")
  set_target_properties(${library} PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES "${architecture}-virtual")
  target_compile_options(${library} PRIVATE "SHELL:-Xcicc -O0")  # a third less time; nothing reads this PTX
endfunction()

# quarry_use_rmm(<target>): the target includes and links RMM (QUARRY_RMM).
function(quarry_use_rmm target)
  find_package(CUDAToolkit REQUIRED)
  foreach(folder ${QUARRY_RMM})
    target_include_directories(${target} SYSTEM BEFORE PRIVATE ${folder}/include ${folder}/include/rapids)  # RMM contains its own CCCL
    target_link_directories(${target} PRIVATE ${folder}/lib64)
    set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH ${folder}/lib64)
  endforeach()
  set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH "$ORIGIN")  # on another machine the libraries are in the program's folder
  target_link_libraries(${target} PRIVATE rmm rapids_logger CUDA::cudart_static)
endfunction()
