// SPDX-License-Identifier: Apache-2.0
// Memory for bookkeeping that other threads read without a lock: it stays mapped for ever.
//
// What is returned goes to the system, but its addresses stay and read as zero until they are
// handed out again, for the same use: who follows an old pointer finds words where words were, and
// never faults. So no reader is waited for, or counted.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// What lasting memory is for: addresses of one use never serve another.
enum class type_stable_use : std::uint32_t {
  views,
  chunks,
  slots,
  roots,
  starts,
  map_pages,
  slice_roots,
  slice_leaves,
  slice_blocks,
  slice_lists,
  count
};

/// What `type_stable_allocate` gives for `size`: whole pages, an eighth more at most beyond that.
[[nodiscard]] QUARRY_API bytes type_stable_size(bytes size);

/// `type_stable_size(size)` bytes of zeros. Throws std::bad_alloc. Any thread may call it.
[[nodiscard]] QUARRY_API void* type_stable_allocate(type_stable_use use, bytes size);

/// Bytes of the pages of what `type_stable_allocate(use, size)` gave that are resident now: those
/// that were written to, and, with huge pages, what lies beside them. 0 for null. O(pages), by a
/// call of the system.
[[nodiscard]] QUARRY_API bytes type_stable_resident(void const* memory, bytes size);

/// Gives that back.
QUARRY_API void type_stable_deallocate(type_stable_use use, void* memory, bytes size) noexcept;

}  // namespace quarry::inline QUARRY_ABI
