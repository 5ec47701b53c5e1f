// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdlib>
#include <cstring>

namespace quarry::test {

/// An upstream of which nothing more is asked than `malloc` and `free`. It gives what lies `shift`
/// bytes behind a multiple of 128, and refuses once `left` is 0. For one lane at a time.
struct counting_upstream {
  struct account {
    std::uint32_t left = 0;
    std::uint32_t allocated = 0;
    std::uint64_t begin = 0, end = 0;  // of the latest
  };
  account* counts;
  std::uint32_t shift = 16;

  QUARRY_HD void* malloc(bytes size) const {
    if (counts->left == 0) return nullptr;
    auto* const whole = static_cast<char*>(::malloc(size + 384));
    // A whole line at least is left before it: room for the address that `free` needs.
    auto const line = (reinterpret_cast<std::uint64_t>(whole) + 255) / 128 * 128;
    auto* const given = reinterpret_cast<char*>(line + shift);
    std::memcpy(given - sizeof whole, &whole, sizeof whole);
    counts->begin = line + shift;
    counts->end = counts->begin + size;
    --counts->left;
    ++counts->allocated;
    return given;
  }
  QUARRY_HD void free(void* pointer) const {
    char* whole;
    std::memcpy(&whole, static_cast<char*>(pointer) - sizeof whole, sizeof whole);
    --counts->allocated;
    ::free(whole);
  }
};

}  // namespace quarry::test
