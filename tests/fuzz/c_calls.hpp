// SPDX-License-Identifier: Apache-2.0
// Makes any call of the C API with a handle, which may be invalid.
#pragma once

#include "fuzz/byte_source.hpp"
#include "quarry/host/c_api.h"

namespace quarry::test {

[[nodiscard]] inline quarry_status call_with(byte_source& input, quarry_pool* handle,
                                             void* address) {
  void* memory = nullptr;
  std::uint64_t size = 0;
  std::uint32_t id = 0;
  quarry_pool_counts counts{};
  switch (input.u8() % 8) {
    case 0:
      return quarry_pool_allocate(handle, input.u64(), &memory);
    case 1:
      return quarry_pool_deallocate(handle, address);
    case 2:
      return quarry_pool_release(handle);
    case 3:
      return quarry_pool_size_of(handle, address, &size);
    case 4:
      return quarry_pool_get_counts(handle, &counts);
    case 5:
      return quarry_pool_label(handle, address, "name");
    case 6:
      return quarry_pool_id(handle, &id);
    default:
      return quarry_pool_destroy(handle);
  }
}
[[nodiscard]] inline quarry_status call_with(byte_source& input, quarry_segment* handle,
                                             void* address) {
  void* memory = nullptr;
  std::uint64_t offset = 0;
  switch (input.u8() % 4) {
    case 0:
      return quarry_segment_allocate(handle, "name", input.u64(), &memory);
    case 1:
      return quarry_segment_release(handle, address);
    case 2:
      return quarry_segment_offset_of(handle, address, &offset);
    default:
      return quarry_segment_close(handle);
  }
}

}  // namespace quarry::test
