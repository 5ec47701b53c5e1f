// SPDX-License-Identifier: Apache-2.0
// Options of pools in the C API.
#pragma once

#include "host/c_sized_options.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/host/c_api.h"
#include "quarry/host/pools/pool.hpp"

#include <cstddef>
#include <string>

namespace quarry::inline QUARRY_ABI::c_api {

/// The size of the options in the first version that has a `size` field.
inline constexpr std::size_t min_options =
    offsetof(quarry_pool_options, keeps_backtraces) + sizeof(quarry_pool_options::keeps_backtraces);
static_assert(sizeof(quarry_pool_options) == min_options, "later fields end without padding, too");

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
  auto const result = read_sized(call, wanted, min_options, default_options());
  if (result.keeps_backtraces > 1)
    throw bad_argument{std::string{call} + ": keeps_backtraces is " +
                       std::to_string(result.keeps_backtraces) + ", not 0 or 1"};
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::c_api
