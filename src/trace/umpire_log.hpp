// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

#include <memory>
#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// Reads the JSON lines that Umpire 2022.10 and later write with `UMPIRE_REPLAY=On`.
///
/// - `allocate`, `named_allocate` and `allocate_resource` become `allocate`, with the allocator's
///   name. An allocation's name becomes its call site, and a camp resource becomes its stream.
///   `deallocate` and `deallocate_resource` become `deallocate`; Umpire writes no size there.
/// - Two lines `reallocate` become an allocation and a deallocation, at the second line. The
///   allocation comes first if the address differs, because Umpire's pools hold both for a while.
///   Lines that Umpire writes between the two for the same addresses count once. One line
///   `reallocate` alone failed, and is no event.
/// - The metadata `event` becomes `phase`.
/// - Lines that allocate nothing are no events: `make_...`, memset, copy, move (whose allocation
///   has a line of its own), release, coalesce, and so on. An unknown operation is a problem.
/// - Lines of the second schema of 2026 have another form: see `umpire_replay_lines`.
///
/// Upstream allocations. Until 2026, Umpire writes only the calls of the application, not those
/// that a pool makes of its resource. A resource that has pools may therefore still have
/// allocations of the application, and they are `allocate`. The second interface of 2026 writes
/// both. A replay needs the pool's allocations; what the pool reserved is the recorded allocator's
/// decision. So an allocation becomes `reserve` if
///   1. the next allocation in the log lies in its range, and belongs to an allocator that was made
///      over this one (directly, or through others), or
///   2. it follows the return of reserved blocks of the same allocator directly: a pool that
///      coalesces replaces blocks, and allocates nothing from the new block yet.
/// Its deallocation becomes `unreserve`, with the size. Rule 1 delays one event.
///
/// Adaptors (`umpire_adaptors.hpp`) have no memory: their allocations are those of the allocator
/// that they stand over. The call site is the allocation's name, then the adaptor's. An
/// AlignedAllocator requests more bytes than its caller. If the log has the call below, too, the
/// two count once.
///
/// Memory: proportional to the number of allocators, and to the blocks and the allocations of
/// adaptors in use at one time.
[[nodiscard]] std::unique_ptr<reader> open_umpire_log(std::unique_ptr<byte_source> source);

/// Whether a file that begins with these bytes is a log of Umpire. True also for the format before
/// 2022.10, whose reader then explains that it cannot read it.
[[nodiscard]] bool looks_like_umpire_log(std::span<unsigned char const> first_bytes);

}  // namespace quarry::inline QUARRY_ABI::trace
