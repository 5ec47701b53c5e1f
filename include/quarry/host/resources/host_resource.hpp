// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

#include <cstdlib>

namespace quarry::inline QUARRY_ABI {

/// Memory of the C library's malloc. Threads may share this resource.
class host_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("host_resource", alignment);
    if (size > max_bytes_at_once) throw out_of_memory{"host_resource", size, request_too_large};
    bytes const minimum = alignment < sizeof(void*) ? sizeof(void*) : alignment;
    void* result = nullptr;
    if (posix_memalign(&result, minimum, size == 0 ? 1 : size) != 0)
      throw out_of_memory{"host_resource", size, "posix_memalign failed"};
    return result;
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { std::free(pointer); }
};

static_assert(memory_resource<host_resource>);

/// A resource without memory: each allocation throws `out_of_memory`.
class null_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes) {
    throw out_of_memory{"null_resource", size, "this resource has no memory"};
  }
  void deallocate(void*, bytes, bytes) noexcept {}
};

static_assert(memory_resource<null_resource>);

}  // namespace quarry::inline QUARRY_ABI
