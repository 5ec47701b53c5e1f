# SPDX-License-Identifier: Apache-2.0
# Writes the runtime for several GPUs: the same PTX, whose atomic operations and fences have system scope in place of device scope. So
# GPUs that share memory see each other's changes in order. One GPU alone uses the runtime of device scope, whose fences take less time.
# cmake -D PTX=<file> -D OUTPUT=<file> -P QuarrySystemScope.cmake
file(READ ${PTX} text)
string(REPLACE ".gpu.global" ".sys.global" text "${text}")
string(REPLACE "membar.gl;" "membar.sys;" text "${text}")
foreach(scope ".gpu" "membar.gl")
  string(FIND "${text}" "${scope}" place)
  if(NOT place EQUAL -1)
    string(SUBSTRING "${text}" ${place} 60 rest)
    message(FATAL_ERROR "${PTX} has an operation of device scope that this script does not know: ${rest}")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${text}")
