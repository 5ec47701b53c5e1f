// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

#include <cstdlib>

namespace quarry::inline QUARRY_ABI {

/// The C library's memory. Threads may share it.
class host_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("host_resource", alignment);
    if (size > max_bytes_at_once) throw out_of_memory{"host_resource", size, "nothing has so much"};
    bytes const minimum = alignment < sizeof(void*) ? sizeof(void*) : alignment;
    void* result = nullptr;
    if (posix_memalign(&result, minimum, size == 0 ? 1 : size) != 0)
      throw out_of_memory{"host_resource", size, "posix_memalign found none"};
    return result;
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { std::free(pointer); }
};

static_assert(memory_resource<host_resource>);

/// Has none.
class null_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes) {
    throw out_of_memory{"null_resource", size, "it has none"};
  }
  void deallocate(void*, bytes, bytes) noexcept {}
};

static_assert(memory_resource<null_resource>);

}  // namespace quarry::inline QUARRY_ABI
