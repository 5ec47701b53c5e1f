// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::opencl {

/// The state of the bytes after an allocation.
enum class allocation_state : std::uint8_t {
  unknown,  ///< the heap is not a debug heap
  intact,   ///< no overrun was found
  /// The bytes after the requested bytes were overwritten, or a program without QUARRY_DEBUG made
  /// the allocation.
  overrun,
  /// A reserve (opencl/reserve.cl) claimed the slot, and neither handed it out nor returned it.
  reserved
};

/// An allocation that is not freed. If no kernel will free it any more, it is a leak.
struct live_allocation {
  std::uint32_t reference = 0;
  bytes slot_size = 0;  ///< of the allocation's slot or pages
  allocation_state state = allocation_state::unknown;
  // The next fields are 0 unless the state is `intact` or `overrun`. An overrun may have changed
  // them.
  bytes requested_size = 0;
  std::uint32_t number = 0;  ///< of the allocation, counted from 1, modulo 2^32
  /// The work-item that allocated: its group times the size of a group, plus its number there.
  std::uint32_t work_item = 0;
};

}  // namespace quarry::inline QUARRY_ABI::opencl
