# SPDX-License-Identifier: Apache-2.0
# Adds the target quarry::trace: records, reads, replays and tunes traces of allocations. With zlib it also reads compressed files.

find_package(ZLIB QUIET)
add_library(quarry_trace ${quarry_trace_sources})
# The strategies of a replay, one source each. They take as long to compile as all other sources, so that they have batches of their own.
file(GLOB strategies CONFIGURE_DEPENDS src/trace/strategies/*.cpp)
add_library(quarry_strategies OBJECT ${strategies})
set_target_properties(quarry_strategies PROPERTIES UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 5 POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(quarry_strategies PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(quarry_strategies PRIVATE quarry)
quarry_options(quarry_strategies)
target_sources(quarry_trace PRIVATE $<TARGET_OBJECTS:quarry_strategies>)
add_library(quarry::trace ALIAS quarry_trace)
set_target_properties(quarry_trace PROPERTIES UNITY_BUILD ${QUARRY_UNITY} UNITY_BUILD_BATCH_SIZE 9 EXPORT_NAME trace POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(BUILD_SHARED_LIBS)
  set_target_properties(quarry_trace PROPERTIES INSTALL_RPATH "$ORIGIN")  # both libraries are installed into one folder
  target_link_options(quarry_trace PRIVATE LINKER:--exclude-libs,ALL)
endif()
target_include_directories(quarry_trace PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(quarry_trace PUBLIC quarry)
if(ZLIB_FOUND)
  target_link_libraries(quarry_trace PRIVATE ZLIB::ZLIB)
  target_compile_definitions(quarry_trace PRIVATE QUARRY_WITH_ZLIB)
endif()
quarry_options(quarry_trace)
foreach(library quarry_trace quarry_strategies)
  quarry_count_for_fuzzing(${library})
endforeach()
if(QUARRY_SANITIZE)  # fuzzing, searches for places and reading real snapshots are slow in builds that optimise nothing
  target_compile_options(quarry_trace PRIVATE -O1)
endif()
