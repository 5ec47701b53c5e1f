// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

namespace quarry::inline QUARRY_ABI::numa {

/// Throws `bad_argument` if the system has no NUMA node of that number. The message starts with
/// `call`.
void check_node(char const* call, unsigned node);

/// Moves the resident pages of [memory, memory + size) to a node. Throws `bad_argument` if the node
/// does not exist, and `resource_failed` if pages could not be moved.
void move(void* memory, bytes size, unsigned node);

}  // namespace quarry::inline QUARRY_ABI::numa
