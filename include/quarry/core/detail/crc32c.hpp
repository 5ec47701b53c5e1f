// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"

#include <cstdint>
#include <span>

namespace quarry::inline QUARRY_ABI::detail {

/// CRC-32C (Castagnoli), continued from `crc`, the checksum of the bytes before. 0 begins one.
[[nodiscard]] QUARRY_API std::uint32_t crc32c(std::span<unsigned char const> data,
                                              std::uint32_t crc = 0);

}  // namespace quarry::inline QUARRY_ABI::detail
