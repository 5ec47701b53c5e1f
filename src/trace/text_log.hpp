// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

#include <memory>
#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// Reads the text format: `a ID BYTES` allocates, `f ID` frees. Words are separated by spaces or
/// tabs.
///
/// The address of an event is ID + 1, because an ID may be 0 and an address may not. The time of an
/// event is the number of events before it. The reader keeps no table of IDs, so it does not check
/// that an ID is free or in use: replay counts such errors.
[[nodiscard]] std::unique_ptr<reader> open_text_log(std::unique_ptr<byte_source> source);

/// Whether a file that begins with these bytes has the text format.
[[nodiscard]] bool looks_like_text_log(std::span<unsigned char const> first_bytes);

}  // namespace quarry::inline QUARRY_ABI::trace
