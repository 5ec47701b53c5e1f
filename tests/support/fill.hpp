// SPDX-License-Identifier: Apache-2.0
// Slices of one size, with or without the mitigations of the hardened mode.
#pragma once

#include "quarry/device/heap.hpp"

#include <vector>

namespace quarry::test {

/// The size to request from malloc so that it takes a slice of `size` bytes, with or without the
/// mitigations.
[[nodiscard]] inline bytes net(std::uint32_t size) { return size - detail::hardening::padded(0); }

/// Allocates slices of `size` bytes until the heap is full.
[[nodiscard]] inline std::vector<void*> fill(heap const& owner, std::uint32_t size) {
  std::vector<void*> result;
  for (void* memory = owner.ref().malloc(net(size)); memory != nullptr;
       memory = owner.ref().malloc(net(size)))
    result.push_back(memory);
  return result;
}

}  // namespace quarry::test
