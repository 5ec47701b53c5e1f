# SPDX-License-Identifier: Apache-2.0
# Writes the runtime for several GPUs: the same PTX, whose atomic operations and fences have system scope in place of device scope. So
# GPUs that share memory see each other's changes in order. One GPU alone uses the runtime of device scope, whose fences take less time.
# cmake -D PTX=<file> -D OUTPUT=<file> -P QuarrySystemScope.cmake
file(READ ${PTX} text)
string(REPLACE ".gpu.global" ".sys.global" text "${text}")
string(REPLACE "membar.gl;" "membar.sys;" text "${text}")
# An atomic operation without a scope has device scope.
string(REGEX MATCH "[ \t](atom|red)\\.(global\\.|shared\\.)?(add|or|and|xor|cas|exch|min|max|inc|dec)\\.[^\n]*" unscoped "${text}")
if(unscoped)
  message(FATAL_ERROR "${PTX} has an atomic operation without a scope: ${unscoped}")
endif()
foreach(scope ".gpu" "membar.gl")
  string(FIND "${text}" "${scope}" place)
  if(NOT place EQUAL -1)
    string(SUBSTRING "${text}" ${place} 60 rest)
    message(FATAL_ERROR "${PTX} has an operation of device scope that this script does not know: ${rest}")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${text}")
