// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {

using namespace quarry::literals;

/// A pool whose small allocations are slices.
struct sliced {
  explicit sliced(bool is_tracked = true, bytes alignment = 16)
      : source{host_resource{},
               {.first_block = 32_MiB, .alignment = alignment, .is_tracked = is_tracked}} {}
  pool<host_resource> source;
  /// Allocates until the pool serves the size by a slice, and returns that slice.
  void* slice(bytes size) {
    std::vector<void*> full_blocks;
    for (bytes i = 0; i < 65536 / size; ++i) full_blocks.push_back(source.allocate(size));
    void* const result = source.allocate(size);
    for (void* const each : full_blocks) EXPECT_TRUE(source.deallocate(each));
    return result;
  }
};

}  // namespace quarry::test
