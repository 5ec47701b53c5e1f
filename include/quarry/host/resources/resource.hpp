// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"

#include <bit>
#include <concepts>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Why a resource refuses more than `max_bytes_at_once`.
inline constexpr char const* request_too_large =
    "the request is larger than any resource can serve (max 64 TiB)";

/// A source of memory.
///
/// `allocate` returns `size` bytes (0 is allowed) at a multiple of `alignment`. It throws
/// `out_of_memory`, `resource_failed`, or `bad_argument` if the alignment is not a power of two,
/// and then changes nothing. For an alignment that is larger than the resource supports, CUDA's
/// resources throw `out_of_memory` and others throw `bad_argument`. `deallocate` takes memory that
/// `allocate` returned, with the same size and alignment. It never throws. It may return a bool, as
/// pools and adaptors do: false if it has refused the pointer and freed nothing. Resources are
/// movable.
/// Threads may share a resource only if its documentation says so; otherwise the user must
/// serialise the calls.
template <class Resource>
concept memory_resource = std::movable<Resource> &&
                          requires(Resource& resource, void* pointer, bytes size, bytes alignment) {
                            { resource.allocate(size, alignment) } -> std::same_as<void*>;
                            { resource.deallocate(pointer, size, alignment) } noexcept;
                          };

/// Throws `bad_argument` unless `alignment` is a power of two. The message starts with `resource`.
inline void check_power_of_two(char const* resource, bytes alignment) {
  if (std::has_single_bit(alignment)) [[likely]]
    return;
  throw bad_argument{std::string{resource} + ": alignment is " + std::to_string(alignment) +
                     ", not a power of two"};
}

/// The bytes that a chunk needs beyond the requested size, so that it contains a multiple of
/// `alignment` with enough bytes after it. 0 if `alignment` is not above `own`, the alignment of
/// all chunks. Throws `bad_argument` unless `alignment` is a power of two, and `out_of_memory` if
/// it is above 64 TiB.
inline bytes room_to_align(char const* resource, bytes size, bytes alignment, bytes own) {
  check_power_of_two(resource, alignment);
  if (alignment <= own) return 0;
  if (alignment <= max_bytes_at_once) return alignment - own;
  throw out_of_memory{resource, size,
                      "alignment " + std::to_string(alignment) + " exceeds the limit of 64 TiB"};
}

/// Throws `bad_argument` unless a pool supports this alignment: a power of two from 16 to 16384.
/// The message starts with `options`.
inline void check_alignment(char const* options, bytes alignment) {
  if (alignment >= 16 && alignment <= 1 << 14 && (alignment & (alignment - 1)) == 0) return;
  throw bad_argument{std::string{options} + ": alignment is " + std::to_string(alignment) +
                     ", not a power of two from 16 to 16384"};
}

}  // namespace quarry::inline QUARRY_ABI
