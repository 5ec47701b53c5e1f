// SPDX-License-Identifier: Apache-2.0
// Memory for bookkeeping that other threads read without a lock: it stays mapped forever.
//
// The pages of freed memory go back to the system, but its addresses stay mapped. They read as zero
// until they are allocated again, for the same use. So a reader that follows an old pointer finds
// data of the same type and never faults. Nothing waits for readers or counts them.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// The use of type-stable memory. Addresses of one use never serve another use.
enum class type_stable_use : std::uint32_t {
  views,
  chunks,
  slots,
  roots,
  starts,
  start_bits,
  map_pages,
  slice_roots,
  slice_leaves,
  slice_blocks,
  slice_lists,
  count
};

/// The size that `type_stable_allocate` grants for `size`: whole pages, rounded up by an eighth at
/// most.
[[nodiscard]] QUARRY_API bytes type_stable_size(bytes size);

/// Allocates `type_stable_size(size)` bytes of zeros. Throws std::bad_alloc. Any thread may call
/// this.
[[nodiscard]] QUARRY_API void* type_stable_allocate(type_stable_use use, bytes size);

/// The bytes of `memory`, allocated by `type_stable_allocate(use, size)`, that are resident now.
/// These are the pages that were written to and, with huge pages, their neighbours. Returns 0 for
/// null. O(pages), by a system call.
[[nodiscard]] QUARRY_API bytes type_stable_resident(void const* memory, bytes size);

/// Frees memory of `type_stable_allocate(use, size)`. Any thread may call it.
QUARRY_API void type_stable_deallocate(type_stable_use use, void* memory, bytes size) noexcept;

}  // namespace quarry::inline QUARRY_ABI::detail
