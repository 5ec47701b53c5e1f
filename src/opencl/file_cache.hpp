// SPDX-License-Identifier: Apache-2.0
// Results of long work, kept in files. An entry has its whole key and a checksum, so that another
// key with the same hash, or a damaged file, is not mistaken for it.
#pragma once

#include "quarry/core/config.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI::opencl {

/// The value stored for `key`, or nothing. An empty path has no entries. What is no readable file
/// with this value, such as a folder or a pipe, is no entry either.
[[nodiscard]] std::optional<std::string> load_entry(std::filesystem::path const& folder,
                                                    std::string const& key) noexcept;
/// Stores a value. Another process sees the whole entry or none. Failure has no effect.
void store_entry(std::filesystem::path const& folder, std::string const& key,
                 std::string const& value) noexcept;

}  // namespace quarry::inline QUARRY_ABI::opencl
