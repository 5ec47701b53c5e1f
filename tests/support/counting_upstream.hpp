// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdlib>
#include <cstring>

namespace quarry::test {

/// An upstream heap that has only `malloc` and `free`. Each result lies `shift` bytes behind a
/// multiple of 128. Refuses if `remaining` is 0. Requires that one lane calls at a time.
struct counting_upstream {
  struct counters {
    std::uint32_t remaining = 0;
    std::uint32_t allocated = 0;
    std::uint64_t begin = 0, end = 0;  // of the latest allocation
  };
  counters* counts;
  std::uint32_t shift = 16;

  QUARRY_HD void* malloc(bytes size) const {
    if (counts->remaining == 0) return nullptr;
    auto* const allocation = static_cast<char*>(::malloc(size + 384));
    // At least one line is unused before the result. It has room for the address that `free` needs.
    auto const line = (reinterpret_cast<std::uint64_t>(allocation) + 255) / 128 * 128;
    auto* const result = reinterpret_cast<char*>(line + shift);
    std::memcpy(result - sizeof allocation, &allocation, sizeof allocation);
    counts->begin = line + shift;
    counts->end = counts->begin + size;
    --counts->remaining;
    ++counts->allocated;
    return result;
  }
  QUARRY_HD void free(void* pointer) const {
    char* allocation;
    std::memcpy(&allocation, static_cast<char*>(pointer) - sizeof allocation, sizeof allocation);
    --counts->allocated;
    ::free(allocation);
  }
};

}  // namespace quarry::test
