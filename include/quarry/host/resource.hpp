// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"

#include <concepts>

namespace quarry {

/// More than any allocation can have: resources refuse it without asking, since what they ask may
/// not survive the question.
inline constexpr bytes most_bytes_at_once = bytes{1} << 46;

/// Where memory comes from.
///
/// `allocate` gives `size` bytes (0 too) at a multiple of `alignment`, a power of two, or throws
/// `out_of_memory` or `resource_failed`, and has changed nothing then. `deallocate` gives back what
/// `allocate` gave, with the same size and alignment; it never throws. Resources are movable; who
/// uses one from several threads sees that they take turns, unless it says that it needs no such
/// care.
template <class Resource>
concept memory_resource =
    std::movable<Resource> && requires(Resource& from, void* pointer, bytes size, bytes alignment) {
      { from.allocate(size, alignment) } -> std::same_as<void*>;
      { from.deallocate(pointer, size, alignment) } noexcept;
    };

/// Throws `bad_argument` unless a pool can have this alignment; `options` are named.
inline void check_alignment(char const* options, bytes alignment) {
  if (alignment >= 16 && alignment <= 1 << 14 && (alignment & (alignment - 1)) == 0) return;
  throw bad_argument{std::string{options} + ": alignment is " + std::to_string(alignment) +
                     ", not a power of two from 16 to 16384"};
}

}  // namespace quarry
