# SPDX-License-Identifier: Apache-2.0
# Sizes, bits, errors: needs neither an operating system nor CUDA.
quarry_layer(core
  SOURCES crc32c.cpp
  TESTS core/*_test.cpp)
