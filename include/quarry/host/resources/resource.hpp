// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"

#include <bit>
#include <concepts>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// More than any allocation can have: resources refuse it without asking, since what they ask may
/// not survive the question.
inline constexpr bytes max_bytes_at_once = bytes{1} << 46;

/// Where memory comes from.
///
/// `allocate` gives `size` bytes (0 too) at a multiple of `alignment`, or throws `out_of_memory`,
/// `resource_failed`, or `bad_argument` if the alignment is no power of two, and has changed
/// nothing then. For a larger alignment than it can have it throws `out_of_memory` (CUDA's) or
/// `bad_argument` (others). `deallocate` frees what
/// `allocate` gave, with the same size and alignment; it never throws. Resources are movable; who
/// uses one from several threads sees that they take turns, unless it says that it needs no such
/// care.
template <class Resource>
concept memory_resource =
    std::movable<Resource> && requires(Resource& from, void* pointer, bytes size, bytes alignment) {
      { from.allocate(size, alignment) } -> std::same_as<void*>;
      { from.deallocate(pointer, size, alignment) } noexcept;
    };

/// Throws `bad_argument` unless `alignment` is a power of two; `who` was asked for it.
inline void check_power_of_two(char const* who, bytes alignment) {
  if (std::has_single_bit(alignment)) [[likely]]
    return;
  throw bad_argument{std::string{who} + ": alignment is " + std::to_string(alignment) +
                     ", not a power of two"};
}

/// Bytes that a chunk has beyond what was asked for, so that a multiple of `alignment` lies in it:
/// 0 if all chunks have that alignment, `own`. Throws `bad_argument` unless `alignment` is a power
/// of two, and `out_of_memory` if nothing is so large.
inline bytes room_to_align(char const* who, bytes size, bytes alignment, bytes own) {
  check_power_of_two(who, alignment);
  if (alignment <= own) return 0;
  if (alignment <= max_bytes_at_once) return alignment - own;
  throw out_of_memory{who, size, "nothing is aligned to " + std::to_string(alignment)};
}

/// Throws `bad_argument` unless a pool can have this alignment; `options` are named.
inline void check_alignment(char const* options, bytes alignment) {
  if (alignment >= 16 && alignment <= 1 << 14 && (alignment & (alignment - 1)) == 0) return;
  throw bad_argument{std::string{options} + ": alignment is " + std::to_string(alignment) +
                     ", not a power of two from 16 to 16384"};
}

}  // namespace quarry::inline QUARRY_ABI
