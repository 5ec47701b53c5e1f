# SPDX-License-Identifier: Apache-2.0
# Writes the lines of a PTX file that have the types of the C library's functions (compiler/call_types.hpp).
# usage: cmake -D PTX=<file> -D OUTPUT=<file> -P QuarryMpiTypes.cmake
file(STRINGS "${PTX}" lines REGEX "^\\.visible \\.func.* quarry_c_[A-Za-z0-9_]+\\(|^\t\\.param .* quarry_c_[A-Za-z0-9_]+_(param_[0-9]+|vararg)")
list(JOIN lines "\n" text)
file(WRITE "${OUTPUT}" "${text}\n")
