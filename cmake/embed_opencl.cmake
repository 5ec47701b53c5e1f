# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source that contains the OpenCL C files in the order given. A file includes only files before it.
# usage: cmake -DOUTPUT=FILE -DSOURCES=a.cl,b.cl -P embed_opencl.cmake
string(REPLACE "," ";" SOURCES "${SOURCES}")
set(text "")
foreach(source ${SOURCES})
  file(READ ${source} content)
  string(REGEX REPLACE "#(pragma once|include \"[a-z0-9_]+\\.cl\")\n" "\n" content "${content}")
  get_filename_component(name ${source} NAME)
  string(APPEND text "    R\"opencl(#line 1 \"${name}\"\n${content})opencl\"\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"quarry/opencl/program.hpp\"\n\nnamespace quarry::inline QUARRY_ABI::opencl {\n\n"
  "char const* sources() noexcept {\n  return\n${text}      ;\n}\n\n}  // namespace quarry::inline QUARRY_ABI::opencl\n")
