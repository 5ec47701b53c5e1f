// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

#include <memory>
#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// Reads the CSV of RMM's logging adaptor, which `allocation_log` writes, too. The columns are
/// Thread, Time, Action, Pointer, Size, Stream.
///
/// - `allocate` becomes `allocate`, `allocate failure` becomes `fail`, `free` becomes `deallocate`
///   with its size. Rows with a null pointer, which RMM writes for 0 bytes, are no events.
/// - Threads are named by their decimal number. Streams are named by their handle, as in `0x2`,
///   however the log writes it. Handle 0 is stream 0.
/// - The log has no date. Time counts from the midnight before the first row. A row whose time is
///   more than 2 hours before the row above it is of the next day. Smaller steps back are kept:
///   threads may be late, and a clock may leave daylight saving. Two hours or more without a row
///   across midnight may hide whole days.
/// - A second header begins a new log. Its first row is not earlier than the row above the header.
[[nodiscard]] std::unique_ptr<reader> open_rmm_log(std::unique_ptr<byte_source> source);

/// Whether a file that begins with these bytes is a log of RMM.
[[nodiscard]] bool looks_like_rmm_log(std::span<unsigned char const> first_bytes);

}  // namespace quarry::inline QUARRY_ABI::trace
