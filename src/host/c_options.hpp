// SPDX-License-Identifier: Apache-2.0
// Options of pools in the C API, for callers that were compiled with any version of its header.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/c_api.h"
#include "quarry/host/pools/pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace quarry::inline QUARRY_ABI::c_api {

/// The size of the options in the first version that has a `size` field.
inline constexpr std::size_t min_options =
    offsetof(quarry_pool_options, keeps_backtraces) + sizeof(quarry_pool_options::keeps_backtraces);
inline constexpr std::size_t max_options = 4096;
static_assert(sizeof(quarry_pool_options) == min_options, "later fields end without padding, too");

/// Throws `bad_argument` unless options may have this size. The message starts with `call`.
inline void check_size(char const* call, std::uint64_t size) {
  if (size >= min_options && size <= max_options) return;
  throw bad_argument{std::string{call} + ": options of " + std::to_string(size) +
                     " bytes: their size must be from " + std::to_string(min_options) + " to " +
                     std::to_string(max_options)};
}

[[nodiscard]] inline quarry_pool_options default_options() {
  pool_options const usual;
  return {.size = sizeof(quarry_pool_options),
          .first_block = usual.first_block,
          .next_block = usual.next_block,
          .growth_percent = usual.growth_percent,
          .alignment = usual.alignment,
          .max_bytes = 0,  // no limit
          .device = 0,
          .directory = nullptr,
          .name = nullptr,
          .red_zone = usual.red_zone,
          .keeps_backtraces = 0};
}

/// The options of `wanted`, or the default options if it is null. Throws `bad_argument`.
[[nodiscard]] inline quarry_pool_options read_options(char const* call,
                                                      quarry_pool_options const* wanted) {
  quarry_pool_options result = default_options();
  if (wanted == nullptr) return result;
  std::uint64_t const size = wanted->size == 0 ? min_options : wanted->size;
  check_size(call, size);
  auto const* const all = reinterpret_cast<unsigned char const*>(wanted);
  for (std::uint64_t at = sizeof result; at < size; ++at) {
    if (all[at] != 0)
      throw bad_argument{std::string{call} + ": byte " + std::to_string(at) +
                         " of the options is " + std::to_string(all[at]) +
                         "; this version of Quarry knows only the first " +
                         std::to_string(sizeof result) + " bytes"};
  }
  std::memcpy(&result, wanted, std::min<std::size_t>(size, sizeof result));
  if (result.keeps_backtraces > 1)
    throw bad_argument{std::string{call} + ": keeps_backtraces is " +
                       std::to_string(result.keeps_backtraces) + ", not 0 or 1"};
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::c_api
