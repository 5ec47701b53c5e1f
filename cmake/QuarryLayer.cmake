# SPDX-License-Identifier: Apache-2.0
# A layer of the library, as src/<name>/layer.cmake describes it.

# quarry_layer(<name> [USES <layers>...] [SOURCES <files>...] [CUDA <files>...] [NO_CUDA <files>...] [TESTS <patterns>...]
#              [GPU <patterns>...] [FUZZ <targets>...] [MUTANTS <files>...] [MUTANT_TESTS <files>...])
#   USES          the layers that it may include (tests/lint/layers_test.py)
#   SOURCES       in src/<name>; CUDA only in builds with CUDA, NO_CUDA only in builds without it
#   TESTS         in tests
#   GPU           those of TESTS that nvcc also compiles, for a GPU
#   FUZZ          the target X is tests/fuzz/X_fuzz.cpp
#   MUTANTS       files with labelled memory orders, which `make mutants` relaxes one at a time
#   MUTANT_TESTS  in tests: those that must detect them, fast ones first
# Sets quarry_<name>_<word> for each word in lower case, for example quarry_host_sources with paths from the project's folder, and
# quarry_<name>_backend: the sources after CUDA or after NO_CUDA. Appends the name to quarry_layers.
function(quarry_layer name)
  set(words USES SOURCES CUDA NO_CUDA TESTS GPU FUZZ MUTANTS MUTANT_TESTS)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "${words}")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "quarry_layer(${name}): unknown words ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(layer ${arg_USES})
    if(NOT layer IN_LIST quarry_layers)
      message(FATAL_ERROR "quarry_layer(${name}): USES ${layer}, which is no layer before it")
    endif()
  endforeach()
  if(QUARRY_WITH_CUDA)
    set(backend ${arg_CUDA})
  else()
    set(backend ${arg_NO_CUDA})
  endif()
  list(TRANSFORM arg_SOURCES PREPEND src/${name}/)
  list(TRANSFORM backend PREPEND src/${name}/)
  set(quarry_${name}_backend ${backend} PARENT_SCOPE)
  foreach(word ${words})
    string(TOLOWER ${word} lower)
    set(quarry_${name}_${lower} ${arg_${word}} PARENT_SCOPE)
  endforeach()
  set(quarry_layers ${quarry_layers} ${name} PARENT_SCOPE)
endfunction()

# quarry_of_layers(<variable> <word> <layers>...): what these layers list after the word, which is in lower case.
function(quarry_of_layers variable word)
  set(found "")
  foreach(layer ${ARGN})
    list(APPEND found ${quarry_${layer}_${word}})
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# quarry_write_mutants(<file>): writes a line `LABEL PROGRAM` for each labelled memory order of the layers: the tests of this program must
# detect that the order is relaxed.
function(quarry_write_mutants file)
  set(mutants "")
  foreach(layer ${quarry_layers})
    foreach(path ${quarry_${layer}_mutants})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path})
      file(STRINGS ${PROJECT_SOURCE_DIR}/${path} lines REGEX "is_mutant\\(\"[A-Za-z-]+\"\\)|^#define QUARRY_ORDER_. ")
      if(NOT lines)
        message(FATAL_ERROR "${path} has no labelled order, but src/${layer}/layer.cmake lists it after MUTANTS")
      endif()
      foreach(line ${lines})
        string(REGEX REPLACE ".*is_mutant\\(\"([A-Za-z-]+)\"\\).*" "\\1" label "${line}")
        string(REGEX REPLACE "^#define QUARRY_ORDER_(.) .*" "opencl-\\1" label "${label}")
        if(layer STREQUAL "mpi")
          list(APPEND mutants "${label} mpi_tests")
        else()
          list(APPEND mutants "${label} mutant_tests")
        endif()
      endforeach()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES mutants)
  list(JOIN mutants "\n" lines)
  file(WRITE ${file} "${lines}\n")
endfunction()

foreach(layer core platform simt device host trace opencl mpi)
  include(${PROJECT_SOURCE_DIR}/src/${layer}/layer.cmake)
endforeach()
