// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/slice_return.hpp"
#include "support/fill.hpp"
#include "support/state_of.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

/// A heap on the CPU whose slices of `size` bytes are all allocated. Audits the heap at its end.
struct full_heap {
  explicit full_heap(std::uint32_t segments, std::uint32_t size = 640)
      : owner{small_heap(segments)}, id{size_class_of(size)} {
    (void)fill(owner, size);
  }
  full_heap(full_heap const&) = delete;
  full_heap& operator=(full_heap const&) = delete;
  ~full_heap() {
    for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
  }

  /// Frees `slices` of word `index` of a segment.
  void release(word slices, std::uint32_t segment, std::uint32_t index) {
    auto const result = slice_return::release(state, id, state.segments[segment].generation(),
                                              state.block_at(id, segment, index / words_per_block),
                                              segment, index, slices);
    EXPECT_TRUE(result.double_freed == 0 && !result.is_stale);
  }

  heap owner;
  heap_state& state = state_of(owner);
  size_class id;
};

}  // namespace quarry::test
