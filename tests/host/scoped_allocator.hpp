// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/allocators.hpp"
#include "quarry/host/any_allocator.hpp"

#include <string>

namespace quarry::test {

/// Destroys its allocator at the end of the test.
struct scoped_allocator {
  explicit scoped_allocator(any_allocator made) : handle{made}, name{made.name()} {}
  ~scoped_allocator() { allocators::destroy(name, unfreed_memory::discard); }
  any_allocator handle;
  std::string name;
};

}  // namespace quarry::test
