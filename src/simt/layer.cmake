# SPDX-License-Identifier: Apache-2.0
# Lanes, warps and atomics, on a GPU and on the CPU.
quarry_layer(simt
  USES core platform
  SOURCES threads.cpp
  TESTS simt/*_test.cpp
  GPU simt/*_test.cpp)
