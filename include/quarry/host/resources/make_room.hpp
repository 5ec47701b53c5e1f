// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <cstddef>

namespace quarry::inline QUARRY_ABI {

/// Gives a vector room for `count` elements in all, so that adding them needs no memory. Unlike
/// `reserve`, which grows by no more than is asked for, a vector that grows one by one is copied
/// O(log count) times. Throws std::bad_alloc, and has changed nothing then.
template <class Vector>
void make_room(Vector& vector, std::size_t count) {
  if (count > vector.capacity()) vector.reserve(std::max(count, 2 * vector.capacity()));
}

}  // namespace quarry::inline QUARRY_ABI
