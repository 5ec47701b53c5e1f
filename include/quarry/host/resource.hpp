// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <concepts>

namespace quarry {

/// More than any allocation can have: resources refuse it without asking, since what they ask may not survive the question.
inline constexpr bytes most_bytes_at_once = bytes{1} << 46;

/// Where memory comes from.
///
/// `allocate` gives `size` bytes (0 too) at a multiple of `alignment`, a power of two, or throws `out_of_memory`
/// or `resource_failed`, and has changed nothing then. `deallocate` gives back what `allocate` gave, with the same size and alignment; it never throws. Resources are
/// movable; who uses one from several threads sees that they take turns, unless it says that it needs no such care.
template <class Resource>
concept memory_resource = std::movable<Resource> && requires(Resource& from, void* pointer, bytes size, bytes alignment) {
  { from.allocate(size, alignment) } -> std::same_as<void*>;
  { from.deallocate(pointer, size, alignment) } noexcept;
};

}  // namespace quarry
