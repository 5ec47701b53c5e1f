// SPDX-License-Identifier: Apache-2.0
// The size of the heap: its share of a GPU's memory, which other programs use at the same time.
#pragma once

#include "size_text.hpp"

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace quarry::inline QUARRY_ABI::mpi {

/// The limits of a heap whose size the user has not chosen.
inline constexpr bytes least_heap = bytes{64} << 20;
inline constexpr bytes most_heap = bytes{16} << 30;

/// Half of the free memory at the first attempt, and half as much at each further one. A multiple
/// of `least_heap`.
[[nodiscard]] constexpr bytes heap_share(bytes free_bytes, unsigned attempt) {
  return std::clamp((free_bytes >> (attempt + 1)) / least_heap * least_heap, least_heap, most_heap);
}

/// For a heap in which the ranks cannot begin.
[[nodiscard]] inline bad_argument heap_too_small(bytes size) {
  return bad_argument{"a heap of " + text_of_size(size) +
                      " has no room for what the ranks need to begin; run with a larger "
                      "--heap"};
}

struct heap_taken {
  bytes size = 0;
  unsigned attempts = 0;
};

/// Allocates a heap by `allocate(size)`, which throws out_of_memory if it cannot. Several programs
/// that start together ask for a share of the same memory, and some of them come too late. Such a
/// program asks again for a smaller share of what is free then, at last for `least_heap`. Throws
/// out_of_memory if there is not even that.
template <class Free, class Allocate>
heap_taken take_heap(Free const& free_bytes, Allocate const& allocate) {
  constexpr unsigned attempts = 6;
  for (unsigned attempt = 0;; ++attempt) {
    bytes const free_now = free_bytes();
    bytes const size = attempt + 1 < attempts ? heap_share(free_now, attempt) : least_heap;
    try {
      allocate(size);
      return {size, attempt + 1};
    } catch (out_of_memory const&) {
      if (attempt + 1 == attempts)
        throw out_of_memory{"the heap of the ranks", size,
                            "other programs use the GPU, which has " + std::to_string(free_now) +
                                " bytes free; wait for them, or run with a smaller --heap"};
    }
    // Those who come too late hold a part of the memory for a moment.
    std::this_thread::sleep_for(std::chrono::milliseconds{10 << attempt});
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
