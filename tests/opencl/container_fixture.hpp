// SPDX-License-Identifier: Apache-2.0
// A container in an OpenCL heap in the host's memory.
#pragma once

#include "opencl/heap_on_host.hpp"
#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quarry::test::opencl_fixture {

using namespace opencl_c;

constexpr uint items = 64;  // two groups

/// A heap and a container of zeros in it.
template <class Container>
struct fixture {
  heap_on_host on_host;
  quarry_heap heap = on_host.heap();
  quarry_ref at;
  Container* container;
  std::vector<std::vector<uint>> scratch{2, std::vector<uint>(QUARRY_GROUP_WORDS(32))};

  explicit fixture(bytes size = 1_MiB)
      : on_host{size, 2},
        at{quarry_malloc(heap, sizeof(Container))},
        container{static_cast<Container*>(quarry_at(heap, at))} {
    *container = {};
    if constexpr (requires { container->element_bytes; }) container->element_bytes = 4;
  }
  /// Whether only the container's own memory is still allocated.
  std::string audit() { return on_host.audit({at}); }
  uint* local() { return scratch[simt::this_place().block].data(); }
};

inline void make_table(fixture<quarry_map>& f, uint buckets) {
  ASSERT_TRUE(quarry_map_init(f.heap, f.container, buckets));
  quarry_map_empty(f.heap, f.container, 0, 1);
}

}  // namespace quarry::test::opencl_fixture
