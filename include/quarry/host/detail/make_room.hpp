// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <cstddef>

namespace quarry::inline QUARRY_ABI::detail {

/// Gives a vector capacity for `count` elements in all, so that adding them allocates nothing. The
/// capacity at least doubles. So a vector that grows one by one is copied O(log count) times, while
/// `reserve` may grow it by the requested amount only. Throws std::bad_alloc and then changes
/// nothing.
template <class Vector>
void make_room(Vector& vector, std::size_t count) {
  if (count > vector.capacity()) vector.reserve(std::max(count, 2 * vector.capacity()));
}

}  // namespace quarry::inline QUARRY_ABI::detail
