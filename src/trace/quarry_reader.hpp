// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

namespace quarry::inline QUARRY_ABI::trace {

[[nodiscard]] bool looks_like_quarry(std::span<unsigned char const> first_bytes);
/// A reader of Quarry's own format (docs/format/trace.md).
[[nodiscard]] std::unique_ptr<reader> open_quarry(std::unique_ptr<byte_source> source);

}  // namespace quarry::inline QUARRY_ABI::trace
