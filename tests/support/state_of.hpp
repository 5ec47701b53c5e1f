// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap.hpp"

#include <cstring>

namespace quarry::test {

using namespace detail;

/// The shared state of a heap on the CPU, for tests that inspect it. A heap_ref begins with its
/// address.
[[nodiscard]] inline heap_state& state_of(heap const& owner) {
  auto const ref = owner.ref();
  heap_state* state = nullptr;
  std::memcpy(&state, &ref, sizeof(void*));
  return *state;
}

/// A heap on the CPU of `segments` segments of 64 KiB.
[[nodiscard]] inline heap small_heap(std::uint32_t segments, std::uint32_t reserved = 0) {
  return heap{{.bytes = segments * 64_KiB,
               .max_bytes = reserved * 64_KiB,
               .segment_bytes = 64_KiB,
               .backend_kind = backend::cpu,
               .seed = 1}};
}

}  // namespace quarry::test
